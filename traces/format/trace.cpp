#include "traces/format/trace.h"

#include <fmt/format.h>

#include "sim/core/refuse.h"

namespace epsim {

void TraceInfo::validate(const std::string& where) const {
  const auto require = [&](bool holds, const char* key, const std::string& problem) {
    refuse_if(!holds, {where, 0, key}, problem);
  };
  // Limits far above any model, so that a damaged file cannot ask for absurd amounts of memory.
  require(experts >= 1 && experts <= 65536, "experts", fmt::format("{} experts; allowed are 1 to 65536.", experts));
  require(top_k >= 1 && top_k <= experts, "top_k", fmt::format("{}; allowed are 1 to {} (experts).", top_k, experts));
  require(layers() >= 1 && layers() <= 4096, "layer_numbers",
          fmt::format("{} MoE layers; allowed are 1 to 4096.", layers()));
  require(shared_experts >= 0, "shared_experts", "this may not be negative.");
  require(model_layers >= 0, "model_layers", "this may not be negative.");
  for (int l = 0; l < layers(); ++l) {
    const int number = layer_numbers[l];
    const bool ascends = l == 0 || layer_numbers[static_cast<std::size_t>(l) - 1] < number;
    require(number >= 0 && ascends && (model_layers == 0 || number < model_layers), "layer_numbers",
            "these must ascend and stay below the number of layers of the model.");
  }
}

std::size_t Table::rows() const {
  return columns.empty() ? 0 : std::visit([](const auto& values) { return values.size(); }, columns[0].second);
}

const Table::Column* Table::find(const std::string& name) const {
  for (const auto& [title, column] : columns) {
    if (title == name) {
      return &column;
    }
  }
  return nullptr;
}

const std::vector<std::int64_t>* Table::numbers(const std::string& name) const {
  const Column* column = find(name);
  return column == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(column);
}

}  // namespace epsim
