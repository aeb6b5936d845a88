#include "policies/placement/capacity_packing.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "policies/placement/load_key.h"
#include "policies/placement/packing.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

__extension__ using GpuKey = unsigned __int128;

// A GPU's load, room and id as one number that orders by load, then as `ties` says; room and id below 2^32.
class GpuKeys {
 public:
  explicit GpuKeys(GpuTies ties) : room_at_(ties == GpuTies::kLessRoom ? 32 : 0), id_at_(32 - room_at_) {}
  GpuKey make(double load, int room, std::size_t gpu) const {
    return (GpuKey{std::bit_cast<std::uint64_t>(load)} << 64) |
           (static_cast<std::uint64_t>(room) << room_at_ | static_cast<std::uint64_t>(gpu) << id_at_);
  }
  double load_of(GpuKey key) const { return std::bit_cast<double>(static_cast<std::uint64_t>(key >> 64)); }
  int room_of(GpuKey key) const { return static_cast<int>(static_cast<std::uint32_t>(key >> room_at_)); }
  std::size_t gpu_of(GpuKey key) const { return static_cast<std::uint32_t>(key >> id_at_); }

 private:
  int room_at_, id_at_;  // first bits
};

// GPUs that still have room, lightest first.
class OpenGpus {
 public:
  OpenGpus(std::span<const int> capacity, GpuTies ties) : keys_(ties) {
    for (std::size_t g = 0; g < capacity.size(); ++g) {
      if (capacity[g] > 0) {
        heap_.push_back(keys_.make(0.0, capacity[g], g));
      }
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // The lightest GPU for which `usable` holds, or the lightest of all when it holds for none; takes one of its slots.
  template <class Usable>
  std::size_t take(double load, Usable usable) {
    skipped_.clear();
    while (!heap_.empty() && !usable(keys_.gpu_of(heap_.front()))) {
      skipped_.push_back(pop());
    }
    GpuKey chosen;
    if (heap_.empty()) {
      chosen = skipped_.front();
      skipped_.erase(skipped_.begin());
    } else {
      chosen = pop();
    }
    for (const GpuKey key : skipped_) {
      push(key);
    }
    if (keys_.room_of(chosen) > 1) {
      push(keys_.make(keys_.load_of(chosen) + load, keys_.room_of(chosen) - 1, keys_.gpu_of(chosen)));
    }
    return keys_.gpu_of(chosen);
  }

 private:
  GpuKey pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const GpuKey key = heap_.back();
    heap_.pop_back();
    return key;
  }
  void push(GpuKey key) {
    heap_.push_back(key);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  GpuKeys keys_;
  std::vector<GpuKey> heap_, skipped_;
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
