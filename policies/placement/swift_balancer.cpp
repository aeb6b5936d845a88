// SwiftBalancer: the plan in place, changed in a few experts.
//   Models : layer by layer, unless the fullest GPU has less than 1.01 times the mean. Slots beyond the first of each
//            expert (slot by slot over the GPUs) are given out anew: hottest experts first, each copy to the lightest
//            GPU that has such a slot and not the expert, at most one expert from any GPU to another. Then up to 100
//            times the fullest GPU swaps an expert with the lightest GPU with which that lowers the larger of both
//            loads by 1 % of the mean at least; again one expert each way between two GPUs, and none that has just
//            arrived. A layer is changed where the fullest GPU falls; all of them only where the sum of the fullest
//            GPUs' loads falls by 5 %.
//   Ignores: redundancy by node; loads by copy (copies share evenly); the order in which layers move.
//   Readings: an expert's n-th copy leaves n / (n + 1) of what it had, as the source has it, where an even split leaves
//            (n - 1) / n for n = 2, 3, ..: PR 16000 corrects that. The first plan is made from experts in order, with
//            copies of expert 0, 1, .. on the last GPUs, as vllm-ascend starts.
//   Source : vllm-project/vllm-ascend at 35fdec4, vllm_ascend/eplb/core/policy/policy_swift_balancer.py; behaviour
//   only. Valid  : cases done by hand and bounds on moves (tests/policies/swift_balancer_test.cpp).
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "policies/placement/eplb.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

constexpr double kBalancedEnough = 1.01, kLeastSwap = 0.01, kLeastGain = 0.95;
constexpr int kMostSwaps = 100;

class SwiftLayer {
 public:
  SwiftLayer(std::span<const double> loads, const LayerPlan& now)
      : loads_(loads),
        gpus_(static_cast<std::size_t>(now.gpus())),
        mean_(std::accumulate(loads.begin(), loads.end(), 0.0) / now.gpus()),
        slots_(gpus_),
        fresh_(gpus_),
        sent_(gpus_ * gpus_, false),
        share_(loads.begin(), loads.end()) {
    for (std::size_t g = 0; g < gpus_; ++g) {
      slots_[g].assign(now.slots.begin() + now.first_slot[g], now.slots.begin() + now.first_slot[g + 1]);
    }
  }

  // Of the fullest GPU, copies sharing evenly.
  double peak() const {
    std::vector<double> copies(loads_.size(), 0.0);
    for (const std::vector<int>& gpu : slots_) {
      for (const int e : gpu) {
        ++copies[at(e)];
      }
    }
    double out = 0;
    for (const std::vector<int>& gpu : slots_) {
      out = std::max(out, std::accumulate(gpu.begin(), gpu.end(), 0.0,
                                          [&](double sum, int e) { return sum + loads_[at(e)] / copies[at(e)]; }));
    }
    return out;
  }
  bool balanced() const { return mean_ == 0 || peak() < kBalancedEnough * mean_; }

  // What the source takes for the load of the fullest GPU afterwards.
  double improve() {
    free_copies();
    deal_copies();
    for (int i = 0; i < kMostSwaps && swap_once(); ++i) {
    }
    return *std::max_element(weight_.begin(), weight_.end());
  }

  LayerPlan plan() const { return uniform_layer(layer_of_gpus(slots_).slots, static_cast<int>(slots_.size())); }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  bool holds(std::size_t gpu, int e) const {
    return std::find(slots_[gpu].begin(), slots_[gpu].end(), e) != slots_[gpu].end();
  }
  std::vector<bool>::reference sent(std::size_t from, std::size_t to) { return sent_[from * gpus_ + to]; }

  // Every expert's first slot stays; the others become free (-1).
  void free_copies() {
    home_.assign(loads_.size(), gpus_);
    for (std::size_t s = 0; s < loads_.size() * gpus_; ++s) {
      for (std::size_t g = 0; g < gpus_; ++g) {
        if (s >= slots_[g].size()) {
          continue;
        }
        std::size_t& home = home_[at(slots_[g][s])];
        if (home == gpus_) {
          home = g;
        } else {
          slots_[g][s] = -1;
          ++free_;
        }
      }
    }
  }

  std::vector<int> hottest_first() const {
    std::vector<int> out(share_.size());
    std::iota(out.rbegin(), out.rend(), 0);  // of equal ones the last comes first, as in the source
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return share_[at(a)] > share_[at(b)]; });
    return out;
  }

  std::vector<int> choose_copies() {
    std::vector<std::size_t> copies(share_.size(), 1);
    for (int i = 0; i < free_; ++i) {
      for (const int e : hottest_first()) {
        if (copies[at(e)] < gpus_) {
          share_[at(e)] *= static_cast<double>(copies[at(e)] + 1) / static_cast<double>(copies[at(e)] + 2);
          ++copies[at(e)];
          break;
        }
      }
    }
    std::vector<int> out;
    for (int e = 0; e < std::ssize(copies); ++e) {
      out.insert(out.end(), copies[at(e)] - 1, e);
    }
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return share_[at(a)] > share_[at(b)]; });
    return out;
  }

  void deal_copies() {
    const std::vector<int> copies = choose_copies();
    weight_.assign(gpus_, 0.0);
    for (std::size_t g = 0; g < gpus_; ++g) {
      for (const int e : slots_[g]) {
        weight_[g] += e >= 0 ? share_[at(e)] : 0.0;
      }
    }
    for (const int e : copies) {
      std::size_t best = gpus_;
      for (std::size_t g = 0; g < gpus_; ++g) {
        if (holds(g, -1) && !holds(g, e) && !sent(home_[at(e)], g) && (best == gpus_ || weight_[g] < weight_[best])) {
          best = g;
        }
      }
      if (best < gpus_) {
        put(best, e, share_[at(e)]);
      }
    }
    fill_rest();
  }

  void put(std::size_t gpu, int e, double weight) {
    *std::find(slots_[gpu].rbegin(), slots_[gpu].rend(), -1) = e;
    weight_[gpu] += weight;
    sent(home_[at(e)], gpu) = true;
    fresh_[gpu].insert(e);
  }

  // Slots that one expert a pair of GPUs left free: the hottest expert that is not there, loads taken as they now are.
  void fill_rest() {
    std::vector<double> copies(share_.size(), 0.0);
    bool any = false;
    for (std::size_t g = 0; g < gpus_; ++g) {
      any = any || holds(g, -1);
      for (const int e : slots_[g]) {
        copies[at(std::max(e, 0))] += e >= 0 ? 1 : 0;
      }
    }
    if (!any) {
      return;
    }
    for (std::size_t e = 0; e < share_.size(); ++e) {
      share_[e] = loads_[e] / copies[e];
    }
    for (std::size_t g = 0; g < gpus_; ++g) {
      while (holds(g, -1)) {
        const std::vector<int> order = hottest_first();
        const auto absent = std::find_if(order.begin(), order.end(), [&](int i) { return !holds(g, i); });
        const int e = absent == order.end() ? order.front() : *absent;
        put(g, e, 0.0);
        share_[at(e)] *= copies[at(e)] / (copies[at(e)] + 1);
        ++copies[at(e)];
      }
    }
    for (std::size_t g = 0; g < gpus_; ++g) {
      weight_[g] = std::accumulate(slots_[g].begin(), slots_[g].end(), 0.0,
                                   [&](double sum, int e) { return sum + share_[at(e)]; });
    }
  }

  struct Swap {
    int out = -1, in = -1;
    double peak;
  };
  Swap best_swap(std::size_t full, std::size_t other) const {
    Swap best{.peak = weight_[full]};
    for (const int a : slots_[full]) {
      for (const int b : slots_[other]) {
        if (holds(other, a) || fresh_[full].count(a) > 0 || holds(full, b) || fresh_[other].count(b) > 0) {
          continue;
        }
        const double moved = share_[at(a)] - share_[at(b)];
        const double peak = std::max(weight_[full] - moved, weight_[other] + moved);
        best = peak < best.peak ? Swap{a, b, peak} : best;
      }
    }
    return best;
  }

  bool swap_once() {
    const std::vector<std::size_t> order =
        sorted_ids(gpus_, [&](std::size_t a, std::size_t b) { return weight_[a] < weight_[b]; });
    const std::size_t full = order.back();
    for (std::size_t i = 0; i + 1 < gpus_; ++i) {
      const std::size_t other = order[i];
      if (sent(full, other) || sent(other, full)) {
        continue;
      }
      const Swap swap = best_swap(full, other);
      if (swap.out < 0 || weight_[full] - swap.peak < kLeastSwap * mean_) {
        continue;
      }
      *std::find(slots_[full].begin(), slots_[full].end(), swap.out) = swap.in;
      *std::find(slots_[other].begin(), slots_[other].end(), swap.in) = swap.out;
      const double moved = share_[at(swap.out)] - share_[at(swap.in)];
      weight_[full] -= moved;
      weight_[other] += moved;
      fresh_[full].insert(swap.in);
      fresh_[other].insert(swap.out);
      sent(full, other) = sent(other, full) = true;
      return true;
    }
    return false;
  }

  std::span<const double> loads_;
  std::size_t gpus_;
  double mean_;
  std::vector<std::vector<int>> slots_;  // [GPU] experts; -1: free
  std::vector<std::set<int>> fresh_;     // [GPU] experts that have just arrived
  std::vector<bool> sent_;               // [from][to]
  std::vector<double> share_;            // [expert] load of a copy
  std::vector<double> weight_;           // [GPU]
  std::vector<std::size_t> home_;        // [expert] GPU of its first slot
  int free_ = 0;
};

class SwiftBalancer final : public PlacementPolicy {
 public:
  explicit SwiftBalancer(EplbOptions options) : options_(std::move(options)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const EplbShape checked = check_eplb(options_, load.experts(), shape);
    std::vector<int> slots;
    for (int s = 0; s < checked.physical; ++s) {
      slots.push_back(s % load.experts());
    }
    const PlacementPlan start{.policy = "swift_balancer",
                              .experts = load.experts(),
                              .gpus = shape.gpus,
                              .layers{static_cast<std::size_t>(load.layers()), uniform_layer(slots, shape.gpus)}};
    return replan(load, shape, start);
  }

  PlacementPlan replan(const LoadWindow& load, const ClusterShape&, const PlacementPlan& previous) const override {
    PlacementPlan out = previous;
    double before = 0, after = 0;
    for (int l = 0; l < load.layers(); ++l) {
      LayerPlan& layer = out.layers[static_cast<std::size_t>(l)];
      SwiftLayer swift(load.layer(l), layer);
      const double peak = swift.peak();
      before += peak;
      const double improved = swift.balanced() ? peak : swift.improve();
      after += improved;
      if (improved < peak) {
        layer = swift.plan();
      }
    }
    return after < kLeastGain * before ? out : previous;
  }

 private:
  EplbOptions options_;
};

}  // namespace

extern const PlacementPolicyEntry kSwiftBalancer{
    {"swift_balancer", "The plan in place with a few experts moved or copied elsewhere: vllm-ascend's SwiftBalancer.",
     "batches (loads are summed), affinity, nodes", kCopiesKeys, make_with_copies<SwiftBalancer>},
    ExpertGroups::kUnknown,
    CopyBudget::kPerLayer,
    "ascend_rotation",
    true};

}  // namespace epsim
