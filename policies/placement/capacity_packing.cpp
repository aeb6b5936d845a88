#include "policies/placement/capacity_packing.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <vector>

#include "policies/placement/packing.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

struct OpenGpu {
  double load = 0;
  int room = 0;
  std::size_t gpu = 0;
};

// Whether `a` comes after `b` among open GPUs: the lightest first, then as `ties` says.
struct After {
  GpuTies ties;
  bool operator()(const OpenGpu& a, const OpenGpu& b) const {
    const bool by_room = ties == GpuTies::kLessRoom;
    return std::tuple(a.load, by_room ? a.room : 0, a.gpu) > std::tuple(b.load, by_room ? b.room : 0, b.gpu);
  }
};

// GPUs that still have room, lightest first.
class OpenGpus {
 public:
  OpenGpus(std::span<const int> capacity, GpuTies ties) : heap_(After{ties}) {
    for (std::size_t g = 0; g < capacity.size(); ++g) {
      if (capacity[g] > 0) {
        heap_.push({0.0, capacity[g], g});
      }
    }
  }

  // The lightest GPU for which `usable` holds, or the lightest of all when it holds for none; takes one of its slots.
  template <class Usable>
  std::size_t take(double load, Usable usable) {
    skipped_.clear();
    while (!heap_.empty() && !usable(heap_.top().gpu)) {
      skipped_.push_back(heap_.top());
      heap_.pop();
    }
    const bool none = heap_.empty();
    const OpenGpu chosen = none ? skipped_.front() : heap_.top();
    if (!none) {
      heap_.pop();
    }
    std::for_each(skipped_.begin() + (none ? 1 : 0), skipped_.end(), [&](const OpenGpu& gpu) { heap_.push(gpu); });
    if (chosen.room > 1) {
      heap_.push({chosen.load + load, chosen.room - 1, chosen.gpu});
    }
    return chosen.gpu;
  }

 private:
  std::priority_queue<OpenGpu, std::vector<OpenGpu>, After> heap_;
  std::vector<OpenGpu> skipped_;
};

// Experts by load per copy, heaviest first; ties to the lower id.
std::vector<int> experts_by_copy_load(std::span<const double> loads, const std::vector<int>& copies) {
  std::vector<double> per_copy(loads.size());
  for (std::size_t e = 0; e < loads.size(); ++e) {
    per_copy[e] = loads[e] / copies[e];
  }
  return order_by_load<double>(per_copy, TieOrder::kStable);
}

}  // namespace

LayerPlan place_by_capacity(std::span<const double> loads, std::span<const int> capacity, bool allow_duplicates,
                            GpuTies ties) {
  const int gpus = static_cast<int>(capacity.size());
  const int physical = std::accumulate(capacity.begin(), capacity.end(), 0);
  EPSIM_CHECK(physical >= static_cast<int>(loads.size()), "every expert needs a slot");
  const std::vector<int> copies = allow_duplicates ? replicate_hottest<double>(loads, physical).copies
                                                   : replicate_hottest<double>(loads, physical, gpus).copies;

  LayerPlan out{.slots = std::vector<int>(static_cast<std::size_t>(physical)),
                .first_slot = std::vector<int>(capacity.size() + 1, 0),
                .copy_rank = std::vector<int>(static_cast<std::size_t>(physical))};
  std::partial_sum(capacity.begin(), capacity.end(), out.first_slot.begin() + 1);
  std::vector<int> next(out.first_slot.begin(), out.first_slot.end() - 1);
  std::vector<int> last_expert(capacity.size(), -1);  // copies of one expert are placed one after another
  OpenGpus open(capacity, ties);
  for (const int expert : experts_by_copy_load(loads, copies)) {
    const auto e = static_cast<std::size_t>(expert);
    const double load = loads[e] / copies[e];
    for (int rank = 0; rank < copies[e]; ++rank) {
      const std::size_t g =
          open.take(load, [&](std::size_t gpu) { return allow_duplicates || last_expert[gpu] != expert; });
      last_expert[g] = expert;
      const auto slot = static_cast<std::size_t>(next[g]++);
      out.slots[slot] = expert;
      out.copy_rank[slot] = rank;
    }
  }
  return out;
}

}  // namespace epsim
