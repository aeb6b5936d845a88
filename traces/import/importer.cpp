#include "traces/import/importer.h"

#include <fmt/format.h>

#include <numeric>

#include "sim/core/error.h"
#include "traces/import/formats.h"
#include "traces/text_input.h"

namespace epsim {

namespace {

constexpr TraceImporter kImporters[] = {
    {"trtllm", "TensorRT-LLM expert statistics (meta_info.json and rank*.safetensors)", recognises_trtllm,
     import_trtllm},
    {"numpy", "NumPy array of expert ids [token][layer][k], .npy or .npz (vLLM routed experts)", recognises_numpy,
     import_numpy},
    {"sglang", "SGLang logical_count JSON, summed or by step", recognises_sglang, import_sglang},
    {"sglang_recorder", "SGLang expert distribution recorder, .pt: stat, stat_approx, per_pass or per_token",
     recognises_sglang_recorder, import_sglang_recorder},
    {"long_csv", "CSV of counts, one a line: step,layer,expert,count", recognises_long_csv, import_long_csv},
    {"token_csv", "CSV of expert ids, one line per token and layer", recognises_token_csv, import_token_csv},
    {"wide_csv", "CSV of counts, one line per layer, a column per expert", recognises_wide_csv, import_wide_csv},
    {"token_binary", "raw bytes of expert ids [token][layer][k], with sequences.csv", recognises_token_binary,
     import_token_binary}};

constexpr std::size_t kHeadBytes = 4096;

std::string head_of(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) {
    return "";
  }
  ByteInput input(file);
  std::string head(kHeadBytes, '\0');
  head.resize(input.read(head.data(), head.size()));
  return head;
}

const TraceImporter& chosen(const std::filesystem::path& file, const std::string& format) {
  std::vector<std::string> names{"auto"};
  const std::string head = format == "auto" ? head_of(file) : "";
  for (const TraceImporter& importer : kImporters) {
    if (importer.name == format || (format == "auto" && importer.recognises(file, head))) {
      return importer;
    }
    names.emplace_back(importer.name);
  }
  if (format != "auto") {
    throw InputError({file.string(), 0, "format"}, unknown_name("format", format, names));
  }
  throw InputError({file.string(), 0, "format"},
                   fmt::format("no reader recognises this file. If it is one of these, name its format: {}.",
                               fmt::join(names.begin() + 1, names.end(), ", ")));
}

// "e12" or "12" -> 12, else -1.
int expert_number(const std::string& name) {
  const std::size_t start = name.starts_with('e') ? 1 : 0;
  if (name.size() == start || name.size() > start + 5 ||
      name.find_first_not_of("0123456789", start) != std::string::npos) {
    return -1;
  }
  return std::stoi(name.substr(start));
}

}  // namespace

std::span<const TraceImporter> trace_importers() { return kImporters; }

void import_trace(const std::filesystem::path& file, const std::string& format, const ImportOptions& options,
                  TraceSink& sink) {
  if (!std::filesystem::exists(file)) {
    throw InputError({file.string(), 0, ""}, "there is no such file.");
  }
  chosen(file, format).run(file, options, sink);
}

TraceInfo imported_info(const std::filesystem::path& file, const std::string& format, const ImportOptions& options,
                        const std::vector<int>& layer_numbers, int experts, int top_k) {
  TraceInfo info;
  info.model = options.model;
  info.source = options.source.empty() ? file.filename().string() : options.source;
  info.licence = options.licence;
  info.recipe = "imported from " + file.filename().string() + " (" + format + ")";
  info.model_layers = options.model_layers;
  info.layer_numbers = options.layer_numbers.empty() ? layer_numbers : options.layer_numbers;
  info.experts = options.experts > 0 ? options.experts : experts;
  info.top_k = options.top_k > 0 ? options.top_k : top_k;
  const auto require = [&](bool holds, const char* key, const std::string& problem) {
    if (!holds) {
      throw InputError({file.string(), 0, key}, problem);
    }
  };
  require(info.experts > 0, "experts", "this format does not say how many experts a layer has; state it.");
  require(info.top_k > 0, "top_k", "this format does not say how many experts a token takes; state it.");
  require(info.layer_numbers.size() == layer_numbers.size(), "layer_numbers",
          fmt::format("{} numbers for the {} layers of the file.", info.layer_numbers.size(), layer_numbers.size()));
  require(experts == 0 || info.experts >= experts, "experts",
          fmt::format("{} experts stated, the file has {}.", info.experts, experts));
  info.validate(file.string());
  return info;
}

std::vector<std::size_t> expert_columns(const std::vector<std::string>& header) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (expert_number(header[i]) == static_cast<int>(out.size())) {
      out.push_back(i);
    }
  }
  const bool at_the_end = !out.empty() && out.back() + 1 == header.size() && out.front() + out.size() == header.size();
  return at_the_end ? out : std::vector<std::size_t>();
}

}  // namespace epsim
