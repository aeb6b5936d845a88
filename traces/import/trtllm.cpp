#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/core/input_file.h"
#include "traces/format/csv.h"
#include "traces/import/formats.h"

namespace epsim {

namespace {

constexpr std::uint64_t kMaxHeader = std::uint64_t{64} << 20;

// Where the counts of one iteration and layer lie in a rank's file.
struct Tensor {
  std::uint64_t begin = 0;
  bool wide = true;  // 8-byte numbers, else 4
};
using LayerKey = std::pair<std::int64_t, int>;  // iteration, layer

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& problem) {
  throw InputError({file.string(), 0, ""}, problem);
}

nlohmann::json parse_json(const std::filesystem::path& file, const std::string& text) {
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    check_limit(limits::kDepth, depth, {file.string(), 0, ""});
    return true;
  };
  nlohmann::json out = nlohmann::json::parse(text, shallow, false);
  if (!out.is_object()) {
    refuse(file, "this is not valid JSON, or no object.");
  }
  return out;
}

int stated(const std::filesystem::path& file, const nlohmann::json& meta, const char* key) {
  const auto found = meta.find(key);
  if (found == meta.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > 65536) {
    refuse(file, fmt::format("'{}' must be a whole number up to 65536.", key));
  }
  return static_cast<int>(found->get<std::uint64_t>());
}

// One rank's file in the safetensors layout: 8 bytes with the size of a JSON header, the header, the data.
class RankFile {
 public:
  RankFile(std::filesystem::path file, int experts) : file_(std::move(file)) {
    const auto file_size = static_cast<std::uint64_t>(check_input_file(file_));
    in_.open(file_, std::ios::binary);
    std::string size(8, '\0');
    in_.read(size.data(), 8);
    const std::uint64_t header_size = little_endian(size.data(), 8);
    if (!in_ || header_size > kMaxHeader || header_size + 8 > file_size) {
      refuse(file_, "this is not a safetensors file, or it is cut off.");
    }
    std::string header(header_size, '\0');
    in_.read(header.data(), static_cast<std::streamsize>(header_size));
    const nlohmann::json tensors = parse_json(file_, header);
    for (const auto& [name, value] : tensors.items()) {
      if (name != "__metadata__") {
        add(name, value, experts, 8 + header_size, file_size);
      }
    }
  }
  const std::map<LayerKey, Tensor>& tensors() const { return tensors_; }

  void read(const LayerKey& key, std::span<double> out) {
    const Tensor t = tensors_.at(key);
    const int width = t.wide ? 8 : 4;
    std::string raw(out.size() * width, '\0');
    in_.seekg(static_cast<std::streamoff>(t.begin));
    in_.read(raw.data(), static_cast<std::streamsize>(raw.size()));
    for (std::size_t e = 0; e < out.size(); ++e) {
      const std::uint64_t bits = little_endian(raw.data() + e * width, width);
      const std::int64_t value = t.wide ? static_cast<std::int64_t>(bits) : static_cast<std::int32_t>(bits);
      if (value < 0) {
        refuse(file_, fmt::format("'{}_{}', expert {}: the count {} is negative.", key.first, key.second, e, value));
      }
      out[e] = static_cast<double>(value);
    }
  }

 private:
  void add(const std::string& name, const nlohmann::json& value, int experts, std::uint64_t base, std::uint64_t end) {
    const std::size_t cut = name.find('_');
    const auto iteration = parse_integer(std::string_view(name).substr(0, cut));
    const auto layer = cut == std::string::npos ? iteration : parse_integer(std::string_view(name).substr(cut + 1));
    const std::string type = value.value("dtype", "");
    const auto shape = value.value("shape", std::vector<std::int64_t>());
    const auto offsets = value.value("data_offsets", std::vector<std::uint64_t>());
    if (cut == std::string::npos || !iteration || !layer || *layer < 0 || *layer > 4095) {
      refuse(file_, fmt::format("the tensor '{}' is not named <iteration>_<layer>.", name.substr(0, 40)));
    }
    const bool wide = type == "I64";
    const std::uint64_t bytes = static_cast<std::uint64_t>(experts) * (wide ? 8 : 4);
    if ((!wide && type != "I32") || shape != std::vector<std::int64_t>{experts} || offsets.size() != 2 ||
        offsets[1] - offsets[0] != bytes || offsets[0] > end || base + offsets[1] > end) {
      refuse(file_, fmt::format("the tensor '{}' is not {} whole numbers (I64 or I32) within the file.",
                                name.substr(0, 40), experts));
    }
    tensors_[{*iteration, static_cast<int>(*layer)}] = {base + offsets[0], wide};
  }

  std::filesystem::path file_;
  std::ifstream in_;
  std::map<LayerKey, Tensor> tensors_;
};

}  // namespace

bool recognises_trtllm(const std::filesystem::path& file, std::string_view) {
  return std::filesystem::exists(file / "meta_info.json") || file.filename() == "meta_info.json";
}

void import_trtllm(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  const std::filesystem::path folder = std::filesystem::is_directory(file) ? file : file.parent_path();
  const std::filesystem::path meta_file = folder / "meta_info.json";
  const nlohmann::json meta = parse_json(meta_file, read_document(meta_file));
  const int experts = stated(meta_file, meta, "num_experts");
  std::vector<std::unique_ptr<RankFile>> ranks;
  for (int r = 0; std::filesystem::exists(folder / fmt::format("rank{}.safetensors", r)); ++r) {
    try {
      ranks.push_back(std::make_unique<RankFile>(folder / fmt::format("rank{}.safetensors", r), experts));
    } catch (const nlohmann::json::exception&) {
      refuse(folder / fmt::format("rank{}.safetensors", r), "its header does not describe tensors.");
    }
  }
  if (ranks.empty() || ranks[0]->tensors().empty()) {
    refuse(folder, "there is no rank0.safetensors with tensors.");
  }
  std::map<std::int64_t, std::vector<int>> iterations;
  for (const auto& [key, tensor] : ranks[0]->tensors()) {
    iterations[key.first].push_back(key.second);
  }
  const std::vector<int>& layers = iterations.begin()->second;
  const TraceInfo info =
      imported_info(folder, "trtllm", options, layers, experts, stated(meta_file, meta, "num_experts_per_token"));
  sink.begin(info, static_cast<int>(ranks.size()));
  const std::int64_t row_values = product_of({std::ssize(layers), std::ssize(ranks), experts});
  check_limit(limits::kRowValues, row_values, {folder.string(), 0, ""});
  std::vector<double> row(static_cast<std::size_t>(row_values));
  std::vector<std::int64_t> tokens(ranks.size()), numbers;
  for (const auto& [iteration, its_layers] : iterations) {
    for (std::size_t i = 0; i < row.size(); i += static_cast<std::size_t>(experts)) {
      const std::size_t place = i / static_cast<std::size_t>(experts), rank = place % ranks.size();
      const LayerKey key{iteration, layers[place / ranks.size()]};
      if (its_layers != layers || !ranks[rank]->tensors().contains(key)) {
        refuse(folder,
               fmt::format("rank {} lacks iteration {}, layer {}, or layers differ.", rank, iteration, key.second));
      }
      const std::span<double> counts(row.data() + i, experts);
      ranks[rank]->read(key, counts);
      tokens[rank] = tokens_of(counts, info.top_k);
    }
    sink.loads({row, tokens});
    numbers.push_back(iteration);
  }
  Table table;
  table.columns.emplace_back("iteration", numbers);
  sink.table("load_rows", table);
}

}  // namespace epsim
