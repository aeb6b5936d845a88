#include "models/catalogue/model_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <regex>
#include <string>

#include "models/catalogue/data_files.h"
#include "models/catalogue/hf_config.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

constexpr char kFolder[] = "architectures";

// Layers that do not attend to all tokens; the others do.
void read_limited_attention(ConfigReader& in, AttentionSpec& out) {
  struct Row {
    const char* section;
    AttentionReach reach;
    const char* tokens;
  };
  for (const Row& row :
       {Row{"sliding", AttentionReach::kSliding, "window"}, Row{"chunked", AttentionReach::kChunked, "chunk"},
        Row{"sparse", AttentionReach::kSparse, "top_k"}, Row{"linear", AttentionReach::kLinear, nullptr}}) {
    if (!in.has(row.section)) {
      continue;
    }
    ConfigReader layers = in.required_section(row.section);
    out.limited.push_back({row.reach, layers.required<int>("layers", Bound::kPositive),
                           row.tokens != nullptr ? layers.required<int>(row.tokens, Bound::kPositive) : 0});
    if (row.reach == AttentionReach::kSparse) {
      out.indexer.heads = layers.required<int>("index_heads", Bound::kPositive);
      out.indexer.head_dim = layers.required<int>("index_head_dim", Bound::kPositive);
    } else if (row.reach == AttentionReach::kLinear) {
      out.linear.key_heads = layers.required<int>("key_heads", Bound::kPositive);
      out.linear.value_heads = layers.required<int>("value_heads", Bound::kPositive);
      out.linear.key_head_dim = layers.required<int>("key_head_dim", Bound::kPositive);
      out.linear.value_head_dim = layers.required<int>("value_head_dim", Bound::kPositive);
      out.linear.conv_kernel = layers.required<int>("conv_kernel", Bound::kPositive);
      out.linear.bytes_per_state = layers.optional("bytes_per_state", out.linear.bytes_per_state, Bound::kPositive);
    }
  }
}

AttentionSpec read_attention(ConfigReader in) {
  AttentionSpec out;
  const bool mla = in.choice("kind", {"mla", "gqa"}) == "mla";
  out.kind = mla ? AttentionKind::kMla : AttentionKind::kGqa;
  out.heads = in.required<int>("heads", Bound::kPositive);
  if (mla) {
    out.q_lora_rank = in.required<int>("q_lora_rank");
    out.kv_lora_rank = in.required<int>("kv_lora_rank", Bound::kPositive);
    out.qk_nope_head_dim = in.required<int>("qk_nope_head_dim", Bound::kPositive);
    out.qk_rope_head_dim = in.required<int>("qk_rope_head_dim");
    out.v_head_dim = in.required<int>("v_head_dim", Bound::kPositive);
  } else {
    out.kv_heads = in.required<int>("kv_heads", Bound::kPositive);
    out.head_dim = in.required<int>("head_dim", Bound::kPositive);
    out.output_gate = in.optional("output_gate", false);
  }
  read_limited_attention(in, out);
  return out;
}

ModelItem read_item(ConfigReader in) {
  return {in.required<std::string>("name"),
          in.maybe<std::vector<std::string>>("aliases").value_or(std::vector<std::string>{}),
          in.required<std::string>("summary")};
}

}  // namespace

MoeSpec read_model(const Config& document) {
  ConfigReader in = document.root();
  MoeSpec out;
  out.name = read_item(in).name;
  out.source = in.required<std::string>("source");
  out.layers = in.required<int>("layers", Bound::kPositive);
  in.check(out.layers <= 10'000, "layers", "must be at most 10000.");
  out.experts = in.optional("experts", 0);
  out.first_dense_layers = in.optional("first_dense_layers", out.dense() ? out.layers : 0);
  out.moe_every = in.optional("moe_every", 1, Bound::kPositive);
  out.hidden = in.required<int>("hidden", Bound::kPositive);
  out.dense_intermediate = in.optional("dense_intermediate", 0);
  if (!out.dense()) {
    out.top_k = in.required<int>("top_k", Bound::kPositive);
    out.moe_intermediate = in.required<int>("moe_intermediate", Bound::kPositive);
  }
  out.shared_intermediate = in.optional("shared_intermediate", 0);
  out.expert_groups = in.optional("expert_groups", 1, Bound::kPositive);
  out.top_groups = in.optional("top_groups", 1, Bound::kPositive);
  out.vocab = in.required<int>("vocab", Bound::kPositive);
  out.context = in.optional("context", 0);
  out.mtp_layers = in.optional("mtp_layers", 0);
  out.model_type = in.optional<std::string>("model_type", "");
  out.tied_embeddings = in.required<bool>("tied_embeddings");
  out.dtype = *value_named<WeightType>(in.choice("dtype", names_of<WeightType>(), "bf16"));
  out.attention = read_attention(in.required_section("attention"));
  in.finish();
  try {
    out.validate();
  } catch (const InputError& e) {
    in.fail("", e.problem);  // the file, not the source of its figures
  }
  return out;
}

namespace {

// A model that comes with the program, read once: a search of layouts asks for it a hundred times.
MoeSpec own_model(const std::string& stem) {
  static std::mutex reading;
  static std::map<std::string, MoeSpec> read;
  const std::scoped_lock lock(reading);
  const auto known = read.find(stem);
  return known != read.end() ? known->second
                             : read.emplace(stem, read_model(data_document(kFolder, stem, "model"))).first->second;
}

}  // namespace

std::vector<ModelItem> list_models() {
  return mapped(data_file_stems(kFolder),
                [&](const std::string& stem) { return read_item(data_document(kFolder, stem, "model").root()); });
}

namespace {

// Whether what follows a model's name on Hugging Face leaves its shape as it is: training, date, version, types of weights and
// Llama 4's sizes, as in 17B-16E.
bool same_shape(const std::string& rest) {
  static const std::regex harmless(
      "(-(instruct|chat|base|thinking|it|hf|fp8|bf16|nvfp4|fp4|mxfp4|awq|gptq|int4|int8|[0-9]+b-[0-9]+e|[0-9]{4}|v[0-9]"
      "[0-9.]*))*");
  return std::regex_match(rest, harmless);
}

// A name on Hugging Face, which looks like a path and is none: the model of the catalogue that it is.
void refuse_repository(const std::string& name) {
  std::filesystem::path path(name);
  path = path.has_filename() ? path : path.parent_path();
  const std::string owner = path.begin()->string();
  const bool repository = std::distance(path.begin(), path.end()) == 2 && owner.find_first_not_of("./") != owner.npos;
  if (!repository || std::filesystem::exists(path)) {
    return;
  }
  const std::string key = catalogue_key(path.filename().string());
  std::string nearest;
  for (const ModelItem& item : list_models()) {
    std::vector<std::string> names = item.aliases;
    names.push_back(item.name);
    for (const std::string& each : names) {
      const bool same = key.starts_with(catalogue_key(each)) && same_shape(key.substr(each.size()));
      if (same && each.size() > nearest.size()) {
        nearest = each;
      }
    }
  }
  refuse_if(!nearest.empty(), "",
            fmt::format("'{}' is no file here. The catalogue has the model as {}; its repository's config.json, "
                        "downloaded, can be given as well.",
                        name, nearest));
  refuse_if(path.extension() != ".json" && path.extension() != ".yaml" && path.extension() != ".yml", "",
            fmt::format("'{}' is no file here, and the catalogue lacks a model of that name; the config.json of a "
                        "repository, downloaded, can be given.",
                        name));
}

}  // namespace

std::optional<MoeSpec> shipped_model(const std::string& name) {
  const std::string key = catalogue_key(name);
  const std::vector<std::string> stems = data_file_stems(kFolder);
  if (std::find(stems.begin(), stems.end(), key) != stems.end()) {
    return own_model(key);
  }
  for (const ModelItem& item : list_models()) {
    if (std::ranges::find(item.aliases, key, catalogue_key) != item.aliases.end()) {
      return own_model(catalogue_key(item.name));
    }
  }
  return std::nullopt;
}

MoeSpec find_model(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) {
    refuse_repository(name_or_path);
    const std::filesystem::path file(name_or_path);
    return file.extension() == ".json" ? read_hf_config(file) : read_model(Config::from_file(file));
  }
  if (std::optional<MoeSpec> shipped = shipped_model(name_or_path)) {
    return *std::move(shipped);
  }
  std::vector<std::string> names;
  for (const ModelItem& item : list_models()) {
    names.push_back(item.name);
    names.insert(names.end(), item.aliases.begin(), item.aliases.end());
  }
  throw InputError({}, unknown_name("model", name_or_path, names));
}

}  // namespace epsim
