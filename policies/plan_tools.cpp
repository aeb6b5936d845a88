#include "policies/plan_tools.h"

#include <fmt/format.h>

#include "sim/core/check.h"
#include "sim/core/refuse.h"

namespace epsim {

std::vector<int> copies_by_expert(const LayerPlan& layer, int experts) {
  std::vector<int> copies(static_cast<std::size_t>(experts), 0);
  for (const int e : layer.slots) {
    ++copies.at(static_cast<std::size_t>(e));
  }
  return copies;
}

std::vector<int> gpus_of_slots(const LayerPlan& layer) {
  std::vector<int> out;
  for (int g = 0; g < layer.gpus(); ++g) {
    const auto at = static_cast<std::size_t>(g);
    out.insert(out.end(), static_cast<std::size_t>(layer.first_slot[at + 1] - layer.first_slot[at]), g);
  }
  return out;
}

std::vector<std::vector<int>> slots_by_expert(const LayerPlan& layer, int experts) {
  const std::vector<int> copies = copies_by_expert(layer, experts);
  std::vector<std::vector<int>> out(copies.size());
  for (std::size_t e = 0; e < copies.size(); ++e) {
    out[e].assign(static_cast<std::size_t>(copies[e]), -1);
  }
  std::vector<int> seen(copies.size(), 0);
  for (std::size_t slot = 0; slot < layer.slots.size(); ++slot) {
    const auto e = static_cast<std::size_t>(layer.slots[slot]);
    const int rank = layer.copy_rank.empty() ? seen[e]++ : layer.copy_rank[slot];
    EPSIM_CHECK(rank >= 0 && rank < copies[e], "a copy's rank is below the number of copies");
    int& place = out[e][static_cast<std::size_t>(rank)];
    EPSIM_CHECK(place == -1, "two copies of an expert have one rank");
    place = static_cast<int>(slot);
  }
  return out;
}

int even_share(int experts, const ClusterShape& shape, const InputPlace& place) {
  refuse_if(
      shape.gpus <= 0 || experts % shape.gpus != 0, place,
      fmt::format("{} experts do not divide over {} GPUs; without uneven copies the GPUs must divide the experts.",
                  experts, shape.gpus));
  return experts / shape.gpus;
}

}  // namespace epsim
