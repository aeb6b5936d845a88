#include "models/catalogue/hf_quantisation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "models/catalogue/hf_modules.h"

namespace epsim {
namespace {

// What is quantised to what, before the parts of a model are looked at.
struct Scheme {
  WeightType type = WeightType::kBf16;
  bool experts_alone = false;        // of routed experts whatever the lists say
  bool needs_head = false;           // the lists have to name the output head, else it is quantised too
  std::vector<std::string> targets;  // modules that are quantised; none: all
  std::vector<const char*> kept;     // keys of lists of modules that are not
};

const char* remedy(const HfObject& in) {
  return in.file().ends_with("hf_quant_config.json")
             ? "Move this file away and state model.dtype in the scenario"
             : "Remove quantization_config and state model.dtype in the scenario";
}

// ModelOpt's names of types. MIXED_PRECISION, W4A16_NVFP4 and others have no type here.
Scheme modelopt_scheme(const HfObject& in) {
  const std::string algorithm = in.word("quant_algo");
  constexpr std::array<std::pair<std::string_view, WeightType>, 2> kKnown = {
      {{"FP8", WeightType::kFp8}, {"NVFP4", WeightType::kFp4}}};
  const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const auto& k) { return k.first == algorithm; });
  if (known == kKnown.end()) {
    in.fail("quant_algo", fmt::format("is '{}'; known are FP8 and NVFP4. {}.", algorithm, remedy(in)));
  }
  if (known->second == WeightType::kFp4 && in.given("group_size")) {
    in.integer("group_size", 16, 16);
  }
  return {known->second, false, true, {}, {"ignore", "exclude_modules"}};
}

// The type of compressed-tensors' weights. `weights` has num_bits, type and, for 4 bits, group_size.
WeightType type_of_weights(const HfObject& weights, bool products_in_bf16) {
  const int bits = weights.integer("num_bits", 1), group = weights.integer_or("group_size", -1, 0);
  const std::string kind = weights.word("type");
  struct Known {
    int bits;
    std::string_view kind;
    int group;  // 0: any
    bool in_bf16;
    WeightType type;
  };
  constexpr std::array<Known, 4> kKnown = {{{8, "float", 0, false, WeightType::kFp8},
                                            {4, "float", 16, false, WeightType::kFp4},
                                            {4, "float", 32, true, WeightType::kMxfp4},
                                            {4, "int", 32, true, WeightType::kInt4}}};
  for (const Known& k : kKnown) {
    if (k.bits == bits && k.kind == kind && (k.group == 0 || k.group == group) && (k.in_bf16 || !products_in_bf16)) {
      return k.type;
    }
  }
  weights.fail("num_bits",
               fmt::format("weights are of {} bits, type '{}', group_size {}{}; known are float of 8 bits and of 4 in "
                           "groups of 16, both with input_activations, and float and int of 4 bits in groups of 32. "
                           "Remove quantization_config and state model.dtype in the scenario.",
                           bits, kind, group, products_in_bf16 ? ", without input_activations" : ""));
}

Scheme compressed_scheme(const HfObject& in) {
  const HfObject groups = in.object("config_groups");
  if (groups.given("group_1")) {
    groups.fail("group_1", fmt::format("several groups have a type each; one is known. {}.", remedy(in)));
  }
  const HfObject group = groups.object("group_0");
  Scheme out{type_of_weights(group.object("weights"), !group.given("input_activations")),
             false,
             true,
             group.words("targets"),
             {"ignore"}};
  if (std::find(out.targets.begin(), out.targets.end(), "Linear") != out.targets.end()) {
    out.targets.clear();
  }
  return out;
}

Scheme scheme_of(const HfObject& in) {
  // ModelOpt's, of which some leave the method out (Qwen3-32B-FP8-Static-PerTensor).
  const std::string method = !in.given("quant_method") && in.given("quant_algo") ? "modelopt" : in.word("quant_method");
  if (method.starts_with("modelopt")) {
    return modelopt_scheme(in);
  }
  if (in.given("quant_algo") || in.given("moe_quant_algo")) {
    in.fail("quant_algo",
            fmt::format("quant_method '{}' has it too, for some of the modules. {}.", method, remedy(in)));
  }
  if (method == "compressed-tensors") {
    return compressed_scheme(in);
  }
  if (method == "fp8") {
    return {WeightType::kFp8, false, false, {}, {"modules_to_not_convert", "ignored_layers"}};
  }
  if (method == "mxfp4") {
    return {WeightType::kMxfp4, true, false, {}, {"modules_to_not_convert"}};
  }
  in.fail("quant_method",
          fmt::format("is '{}', of which epsim does not know which weights it quantises; known are fp8, "
                      "mxfp4, modelopt and compressed-tensors. {}.",
                      method, remedy(in)));
}

HfModuleList module_list(const HfObject& in, const char* key, const std::vector<std::string>& names) {
  try {
    return HfModuleList(names);
  } catch (const std::invalid_argument& e) {
    in.fail(key, fmt::format("holds '{}'; epsim reads names of modules with * and ?, and behind 're:' those with .*, "
                             "\\d+ and (a|b). {}.",
                             e.what(), remedy(in)));
  }
}

// The lists under all keys that hold one, as one; `key` becomes the last of them.
HfModuleList modules_under(const HfObject& in, const std::vector<const char*>& keys, const char** key) {
  std::vector<std::string> names;
  for (const char* k : keys) {
    if (in.given(k)) {
      *key = k;
      const std::vector<std::string> more = in.words(k);
      names.insert(names.end(), more.begin(), more.end());
    }
  }
  return module_list(in, *key, names);
}

constexpr std::array<std::pair<WeightsOf, std::string_view>, 4> kParts = {
    {{WeightsOf::kAttention, "attention"},
     {WeightsOf::kOutput, "attention's output projection"},
     {WeightsOf::kFfn, "dense layers and shared experts"},
     {WeightsOf::kExperts, "routed experts"}}};

struct PartCount {
  int all = 0, quantised = 0;
};
using PartCounts = std::array<PartCount, kWeightParts>;

// The parts that a type has otherwise: "attention in bf16, routed experts partly in fp8".
std::string differences(WeightType type, const PartCounts& counts) {
  std::vector<std::string> out;
  for (const auto& [part, name] : kParts) {
    const PartCount& c = counts[static_cast<std::size_t>(part)];
    const bool kept = type_of(type, part) == WeightType::kBf16;
    if (c.quantised != (kept ? 0 : c.all)) {
      const char* share = c.quantised == 0 || c.quantised == c.all ? "" : "partly ";
      out.push_back(fmt::format("{} {}in {}", name, share, name_of(c.quantised == 0 ? WeightType::kBf16 : type)));
    }
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

bool agrees(WeightType type, const PartCounts& counts) { return differences(type, counts).empty(); }

PartCounts count_parts(const Scheme& scheme, const HfModuleList& kept, const HfModuleList& targets,
                       const std::vector<HfModule>& modules) {
  PartCounts out{};
  for (const HfModule& module : modules) {
    PartCount& c = out[static_cast<std::size_t>(module.part)];
    const bool chosen = (!scheme.experts_alone || module.part == WeightsOf::kExperts) &&
                        (scheme.targets.empty() || targets.covers(module));
    ++c.all;
    c.quantised += chosen && !kept.covers(module) ? 1 : 0;
  }
  return out;
}

// An FP8 cache, which engines take up by default: vLLM (vllm-project/vllm#29980), SGLang (mem_cache/kv_cache_dtype.py).
void read_cache(const HfObject& in, MoeSpec& model) {
  constexpr char kOld[] = "kv_cache_quant_algo", kNew[] = "kv_cache_scheme";
  const char* key = in.given(kOld) ? kOld : kNew;
  if (!in.given(key)) {
    return;
  }
  const auto refuse = [&](const std::string& found) {
    in.fail(key, fmt::format("is {}; model.kv_dtype knows bf16 and fp8. Remove the key and state the nearer of them in "
                             "the scenario.",
                             found));
  };
  if (in.is_object(key)) {
    const HfObject scheme = in.object(key);
    if (scheme.integer("num_bits", 1) != 8 || scheme.word("type") != "float") {
      refuse(fmt::format("{} of {} bits", scheme.word("type"), scheme.integer("num_bits", 1)));
    }
  } else if (in.word(key) != "FP8") {
    refuse(fmt::format("'{}'", in.word(key)));
  }
  model.bytes_per_kv = 1;
}

void apply(const HfObject& in, const Scheme& scheme, const std::vector<AttentionReach>& reach, MoeSpec& model) {
  const char* key = in.given("quant_method") ? "quant_method" : "quant_algo";
  const HfModuleList kept = modules_under(in, scheme.kept, &key);
  const HfModuleList targets = module_list(in, "config_groups", scheme.targets);
  const bool every = kept.names_single_experts() || targets.names_single_experts();
  const PartCounts counts = count_parts(scheme, kept, targets, hf_modules(model, reach, every));
  for (const HfModuleList* list : {&kept, &targets}) {
    if (const std::vector<std::string> unknown = list->unknown(model.layers); !unknown.empty()) {
      in.fail(list == &kept ? key : "config_groups",
              fmt::format("names '{}', which is no module that epsim knows in this model_type{}. {}.", unknown.front(),
                          unknown.size() > 1 ? fmt::format(" ({} such names)", unknown.size()) : "", remedy(in)));
    }
  }
  if (scheme.needs_head && scheme.targets.empty() && !kept.covers_head() && !model.tied_embeddings) {
    in.fail(key, fmt::format("does not leave out lm_head: the output head is quantised, which is bf16 in every "
                             "model.dtype. {}.",
                             remedy(in)));
  }
  if (std::none_of(counts.begin(), counts.end(), [](const PartCount& c) { return c.quantised > 0; })) {
    in.fail(key, fmt::format("says that {} weights are in {}, of which this model has none. {}.",
                             scheme.experts_alone ? "routed experts'" : "some", name_of(scheme.type), remedy(in)));
  }
  for (const auto& [name, type] : kNames<WeightType>) {
    if (type_of(type, WeightsOf::kExperts) == scheme.type && agrees(type, counts)) {
      model.dtype = type;
      return;
    }
  }
  in.fail(key,
          fmt::format("no model.dtype is this checkpoint's: it differs from {0}, the nearest, by {1}. {2}: {0}, or "
                      "another.",
                      name_of(scheme.type), differences(scheme.type, counts), remedy(in)));
}

}  // namespace

void read_quantisation(const HfObject& quantization_config, const std::vector<AttentionReach>& reach, MoeSpec& model) {
  apply(quantization_config, scheme_of(quantization_config), reach, model);
  read_cache(quantization_config, model);
}

void read_quantisation_file(const HfObject& hf_quant_config, const std::vector<AttentionReach>& reach, MoeSpec& model) {
  const HfObject in = hf_quant_config.object("quantization");
  apply(in, modelopt_scheme(in), reach, model);
  read_cache(in, model);
}

}  // namespace epsim
