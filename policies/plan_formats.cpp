#include "policies/plan_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/named.h"

namespace epsim {
namespace {

std::string list(std::span<const int> values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::span<const int> slots_on(const LayerPlan& layer, int gpu) {
  const auto g = static_cast<std::size_t>(gpu);
  return std::span(layer.slots)
      .subspan(static_cast<std::size_t>(layer.first_slot[g]),
               static_cast<std::size_t>(layer.first_slot[g + 1] - layer.first_slot[g]));
}

// Every format here is a table: as many slots on each GPU as on each other, in every layer.
void require_table(const PlacementPlan& plan, const std::string& format) {
  const std::size_t usual = slots_on(plan.layers.front(), 0).size();
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    for (int g = 0; g < plan.gpus; ++g) {
      const std::size_t here = slots_on(plan.layers[l], g).size();
      if (here != usual) {
        throw InputError(
            {"", 0, "format"},
            fmt::format("{} holds equally many experts on every GPU and in every layer; this plan has {} on "
                        "GPU 0 in layer 0 and {} on GPU {} in layer {}. Write it as `epsim`, or plan with a "
                        "policy that gives every layer as many copies.",
                        format, usual, here, g, l));
      }
    }
  }
}

// One row per layer of the model; SGLang's own start order (slot modulo experts) stands in the rows of dense layers.
std::string to_sglang(const PlacementPlan& plan, const ModelLayers& layers) {
  std::vector<int> in_order(plan.layers.front().slots.size());
  for (std::size_t p = 0; p < in_order.size(); ++p) {
    in_order[p] = static_cast<int>(p) % plan.experts;
  }
  std::vector<std::string> rows(static_cast<std::size_t>(layers.count), list(in_order));
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    rows.at(static_cast<std::size_t>(layers.numbers[l])) = list(plan.layers[l].slots);
  }
  return fmt::format("{{\"physical_to_logical_map\": [\n  {}\n]}}\n", fmt::join(rows, ",\n  "));
}

std::string to_trtllm(const PlacementPlan& plan, const ModelLayers& layers) {
  std::string out = "initial_global_assignments:\n";
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    out += fmt::format("  {}: {}\n", layers.numbers[l], list(plan.layers[l].slots));
  }
  // 0 updates: the engine keeps this placement.
  return out + fmt::format("num_slots: {}\nlayer_updates_per_iter: 0\n", plan.layers.front().slots.size());
}

std::string to_vllm(const PlacementPlan& plan, const ModelLayers&) {
  const std::vector<std::string> rows = mapped(plan.layers, [&](const LayerPlan& layer) { return list(layer.slots); });
  return fmt::format("[\n  {}\n]\n", fmt::join(rows, ",\n  "));
}

// The loader turns each GPU's list into a map from expert to slot, where a second copy would overwrite the first.
void require_distinct(const PlacementPlan& plan) {
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    for (int g = 0; g < plan.gpus; ++g) {
      const std::span<const int> here = slots_on(plan.layers[l], g);
      std::vector<int> sorted(here.begin(), here.end());
      std::sort(sorted.begin(), sorted.end());
      const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
      if (twice != sorted.end()) {
        throw InputError(
            {"", 0, "format"},
            fmt::format("vllm-ascend holds an expert at most once on a GPU; this plan has expert {} twice on "
                        "GPU {} in layer {}. Plan with avoid_duplicates: true.",
                        *twice, g, l));
      }
    }
  }
}

std::string to_vllm_ascend(const PlacementPlan& plan, const ModelLayers&) {
  require_distinct(plan);
  std::vector<std::string> rows;
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    std::vector<std::string> devices;
    for (int g = 0; g < plan.gpus; ++g) {
      devices.push_back(
          fmt::format("{{\"device_id\": {}, \"device_expert\": {}}}", g, list(slots_on(plan.layers[l], g))));
    }
    rows.push_back(fmt::format("{{\"layer_id\": {}, \"device_count\": {}, \"device_list\": [\n    {}]}}", l, plan.gpus,
                               fmt::join(devices, ",\n    ")));
  }
  return fmt::format("{{\"moe_layer_count\": {}, \"layer_list\": [\n  {}\n]}}\n", plan.layers.size(),
                     fmt::join(rows, ",\n  "));
}

struct Format {
  const char* name;
  std::string (*write)(const PlacementPlan& plan, const ModelLayers& layers);
};
constexpr Format kFormats[] = {
    {"sglang", to_sglang}, {"trtllm", to_trtllm}, {"vllm", to_vllm}, {"vllm-ascend", to_vllm_ascend}};

}  // namespace

std::vector<std::string> engine_formats() { return entry_names(kFormats); }

std::string export_plan(const PlacementPlan& plan, const ModelLayers& layers, const std::string& format) {
  EPSIM_CHECK(!plan.layers.empty() && layers.numbers.size() == plan.layers.size(), "every layer has a number");
  const Format& found = require_named(kFormats, "format", format, {});
  require_table(plan, format);
  return found.write(plan, layers);
}

}  // namespace epsim
