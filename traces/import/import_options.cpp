#include "traces/import/import_options.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "sim/core/refuse.h"

namespace epsim {

namespace {

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
  info.top_k = options.top_k > 0 ? options.top_k : top_k > 0 ? top_k : options.usual_top_k;
  const auto require = [&](bool holds, const char* key, const std::string& problem) {
    refuse_if(!holds, {file.string(), 0, key}, problem);
  };
  require(info.experts > 0, "experts", "this format does not say how many experts a layer has; state it (--experts).");
  require(info.top_k > 0, "top_k", "this format does not say how many experts a token takes; state it (--top-k).");
  require(info.layer_numbers.size() == layer_numbers.size(), "layer_numbers",
          fmt::format("{} numbers for the {} layers of the file.", info.layer_numbers.size(), layer_numbers.size()));
  require(experts == 0 || info.experts >= experts, "experts",
          fmt::format("{} experts stated, the file has {}.", info.experts, experts));
  require(options.layers == 0 || options.layers == static_cast<int>(layer_numbers.size()), "layers",
          fmt::format("{} layers stated, the file has {}.", options.layers, layer_numbers.size()));
  info.validate(file.string());
  return info;
}

std::int64_t tokens_of(std::span<const double> counts, int top_k) {
  return std::llround(std::accumulate(counts.begin(), counts.end(), 0.0) / top_k);
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
