// FlashLB: copies and GPUs for loads that vary from batch to batch.
//   Models : an expert weighs its mean load over the window's batches and kCaution standard deviations on top. Copies
//            go one by one to the expert that weighs most per copy; experts, the hottest copy first, to the GPU whose
//            load, its mean and kCaution standard deviations (with the covariances of the experts that share it), is
//            then least. How many copies the hottest quarter of the experts gets in all, then the next and the third,
//            is searched: up to kReach more or fewer than the rule gives, by the mean over batches of the fullest
//            GPU's load over the mean. A plan in place is changed in layers whose mean / max is below 0.9, and there if
//            that improves.
//   Ignores: nodes, affinity; that a layer is also planned again when its mean / max has fallen by 5 % since its last
//            change; the limit on layers that change at a time, off there by default.
//   Readings: an expert never has more copies than there are GPUs; where none with room lacks it, it goes to the
//            lightest with room (the source writes over the last GPU's slots). GPUs are not renamed so that fewer
//            experts move: `rebalance: {keep: gpus}` does that.
//   Source : vllm-project/vllm-ascend, vllm_ascend/eplb/core/policy/policy_flashlb.py, the version with means,
//            variances and a search (depth 4, width 8); behaviour only.
//   Valid  : windows with batches (`plan_loads.batches`); of sums alone variances are 0. Cases done by hand
//            (tests/policies/flashlb_test.cpp).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "policies/placement/eplb.h"
#include "sim/core/mapped.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

constexpr double kCaution = 0.6744897501960817;  // standard deviations: the upper quartile of a normal distribution
constexpr int kDepth = 4, kReach = 8;
constexpr double kBalanceKept = 0.9;

using Copies = std::vector<int>;  // [expert]

class FlashLayer {
 public:
  FlashLayer(const LoadWindow& load, int layer, const EplbShape& shape)
      : experts_(at(load.experts())), gpus_(at(shape.gpus)), slots_(at(shape.physical) / gpus_) {
    const auto batches = std::max<std::size_t>(1, at(load.batches()));
    loads_.assign(batches * experts_, 0.0);
    for (std::size_t e = 0; e < experts_; ++e) {
      for (std::size_t t = 0; t < batches; ++t) {
        const double tokens =
            load.batches() > 0 ? load.batches_of(layer, static_cast<int>(e))[t] : load.layer(layer)[e];
        loads_[t * experts_ + e] = tokens > 0 ? tokens : 1.0;  // as there
      }
    }
    take_moments(batches);
  }

  // Mean over batches of the fullest GPU's load over the mean.
  double score(const LayerPlan& plan) const {
    Copies copies(experts_, 0);
    for (const int e : plan.slots) {
      ++copies[at(e)];
    }
    double sum = 0;
    const std::size_t batches = loads_.size() / experts_;
    for (std::size_t t = 0; t < batches; ++t) {
      double all = 0, most = 0;
      for (std::size_t g = 0; g < gpus_; ++g) {
        double here = 0;
        for (std::size_t s = g * slots_; s < (g + 1) * slots_; ++s) {
          here += loads_[t * experts_ + at(plan.slots[s])] / copies[at(plan.slots[s])];
        }
        all += here;
        most = std::max(most, here);
      }
      sum += most * static_cast<double>(gpus_) / all;
    }
    return sum / static_cast<double>(batches);
  }

  LayerPlan plan() const {
    const std::vector<int> order =
        sorted_ids(static_cast<int>(experts_), [&](int a, int b) { return weight_[at(a)] > weight_[at(b)]; });
    const auto part = static_cast<std::ptrdiff_t>((experts_ + kDepth - 1) / kDepth);
    const auto added = [](const Copies& copies, const std::vector<int>& among) {
      return std::accumulate(among.begin(), among.end(), 0, [&](int n, int e) { return n + copies[at(e)] - 1; });
    };
    Copies copies(experts_, 1);
    int left = static_cast<int>(gpus_ * slots_ - experts_);
    auto from = order.begin();
    for (; order.end() - from > part && left > 0; from += part) {
      const std::vector<int> now(from, from + part), later(from + part, order.end());
      const int usual = added(with_copies(copies, {from, order.end()}, left), now);
      const int most = best_near(
          usual, left, [&](int n) { return deploy(with_copies(with_copies(copies, now, n), later, left - n)); });
      copies = with_copies(copies, now, most);
      left -= most;
    }
    copies = with_copies(copies, {from, order.end()}, left);
    return deploy(copies);
  }

 private:
  template <class Number>
  static std::size_t at(Number i) {
    return static_cast<std::size_t>(i);
  }

  void take_moments(std::size_t batches) {
    mean_.assign(experts_, 0.0);
    covariance_.assign(experts_ * experts_, 0.0);
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      mean_[i % experts_] += loads_[i] / static_cast<double>(batches);
    }
    for (std::size_t t = 0; t < batches && batches > 1; ++t) {
      const double* of = &loads_[t * experts_];
      for (std::size_t a = 0; a < experts_; ++a) {
        const double off = (of[a] - mean_[a]) / static_cast<double>(batches - 1);
        for (std::size_t b = 0; b < experts_; ++b) {
          covariance_[a * experts_ + b] += off * (of[b] - mean_[b]);
        }
      }
    }
    for (std::size_t e = 0; e < experts_; ++e) {
      weight_.push_back(mean_[e] + kCaution * std::sqrt(covariance_[e * experts_ + e]));
    }
  }

  // `more` copies on top, each for the one of `among` that weighs most per copy, of those with fewer than GPUs.
  Copies with_copies(Copies copies, const std::vector<int>& among, int more) const {
    const auto asks = [&](int e) {
      return std::pair{copies[at(e)] < static_cast<int>(gpus_), weight_[at(e)] / copies[at(e)]};
    };
    for (; more > 0; --more) {
      ++copies[at(*std::max_element(among.begin(), among.end(), [&](int a, int b) { return asks(a) < asks(b); }))];
    }
    return copies;
  }

  // The number near `usual`, 0 to `most`, with which deployed(number) scores best.
  template <class Deployed>
  int best_near(int usual, int most, const Deployed& deployed) const {
    int best = usual;
    double least = score(deployed(usual));
    for (int off = 1; off <= kReach; ++off) {
      for (const int n : {usual - off, usual + off}) {
        const double s = n < 0 || n > most ? HUGE_VAL : score(deployed(n));
        best = s < least ? n : best;
        least = std::min(s, least);
      }
    }
    return best;
  }

  struct Gpu {
    double mean = 0, variance = 0;
    std::vector<int> slots;
  };

  double variance_with(const Gpu& gpu, int e, const Copies& copies) const {
    const double share = 1.0 / copies[at(e)];
    double out = gpu.variance + covariance_[at(e) * experts_ + at(e)] * share * share;
    for (const int other : gpu.slots) {
      out += 2 * covariance_[at(e) * experts_ + at(other)] * share / copies[at(other)];
    }
    return std::max(out, 0.0);
  }

  LayerPlan deploy(const Copies& copies) const {
    const std::vector<int> order = sorted_ids(static_cast<int>(experts_), [&](int a, int b) {
      return mean_[at(a)] / copies[at(a)] > mean_[at(b)] / copies[at(b)];
    });
    std::vector<Gpu> gpus(gpus_);
    for (const int e : order) {
      for (int copy = 0; copy < copies[at(e)]; ++copy) {
        Gpu& gpu = least_risk(gpus, e, copies);
        gpu.variance = variance_with(gpu, e, copies);
        gpu.mean += mean_[at(e)] / copies[at(e)];
        gpu.slots.push_back(e);
      }
    }
    return uniform_layer(layer_of_gpus(mapped(gpus, &Gpu::slots)).slots, static_cast<int>(gpus.size()));
  }

  Gpu& least_risk(std::vector<Gpu>& gpus, int e, const Copies& copies) const {
    Gpu* best = nullptr;
    std::pair<bool, double> least;  // holds the expert already; the load to reckon with
    for (Gpu& gpu : gpus) {
      if (gpu.slots.size() == slots_) {
        continue;
      }
      const bool twice = std::find(gpu.slots.begin(), gpu.slots.end(), e) != gpu.slots.end();
      const std::pair<bool, double> risk{
          twice, gpu.mean + mean_[at(e)] / copies[at(e)] + kCaution * std::sqrt(variance_with(gpu, e, copies))};
      if (best == nullptr || risk < least) {
        best = &gpu;
        least = risk;
      }
    }
    return *best;
  }

  std::size_t experts_, gpus_, slots_;  // slots: of a GPU
  std::vector<double> loads_;           // [batch][expert]
  std::vector<double> mean_, weight_;   // [expert]
  std::vector<double> covariance_;      // [expert][expert], over batches
};

class FlashLb final : public PlacementPolicy {
 public:
  explicit FlashLb(EplbOptions options) : options_(std::move(options)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const EplbShape checked = check_eplb(options_, load.experts(), shape);
    PlacementPlan out{.policy = "flashlb", .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
    for (int l = 0; l < load.layers(); ++l) {
      out.layers.push_back(FlashLayer(load, l, checked).plan());
    }
    return out;
  }

  PlacementPlan replan(const LoadWindow& load, const ClusterShape& shape,
                       const PlacementPlan& previous) const override {
    const EplbShape checked = check_eplb(options_, load.experts(), shape);
    PlacementPlan out = previous;
    for (int l = 0; l < load.layers(); ++l) {
      LayerPlan& layer = out.layers[static_cast<std::size_t>(l)];
      const FlashLayer flash(load, l, checked);
      const double now = flash.score(layer);
      if (1 / now >= kBalanceKept) {
        continue;
      }
      LayerPlan better = flash.plan();
      if (flash.score(better) < now) {
        layer = std::move(better);
      }
    }
    return out;
  }

 private:
  EplbOptions options_;
};

}  // namespace

extern const PlacementPolicyEntry kFlashLb{
    {"flashlb", "Copies and GPUs for loads that vary from batch to batch: vllm-ascend's FlashLB.", "affinity, nodes",
     kCopiesKeys, make_with_copies<FlashLb>},
    ExpertGroups::kUnknown,
    CopyBudget::kPerLayer,
    "ascend_rotation",
    true,
    Ceiling::kNone,
    {},
    true};

}  // namespace epsim
