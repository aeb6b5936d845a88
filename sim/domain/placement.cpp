#include "sim/domain/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

[[noreturn]] void bad_plan(const PlacementPlan& plan, int layer, const std::string& what) {
  throw InputError({"", 0, "policy"},
                   fmt::format("the plan of '{}' is broken at MoE layer {}: {}", plan.policy, layer, what));
}

LayerPlacement build_layer(const PlacementPlan& plan, int l) {
  const LayerPlan& from = plan.layers[static_cast<std::size_t>(l)];
  if (from.gpus() != plan.gpus || from.first_slot.front() != 0 ||
      from.first_slot.back() != static_cast<int>(from.slots.size()) ||
      !std::is_sorted(from.first_slot.begin(), from.first_slot.end())) {
    bad_plan(plan, l, fmt::format("its slots do not divide over {} GPUs.", plan.gpus));
  }
  LayerPlacement out;
  out.expert.assign(from.slots.begin(), from.slots.end());
  out.first_slot.assign(from.first_slot.begin(), from.first_slot.end());
  out.copies.assign(static_cast<std::size_t>(plan.experts), 0);
  for (const int e : from.slots) {
    if (e < 0 || e >= plan.experts) {
      bad_plan(plan, l, fmt::format("expert {} is not in 0..{}.", e, plan.experts - 1));
    }
    ++out.copies[static_cast<std::size_t>(e)];
  }
  const auto missing = std::find(out.copies.begin(), out.copies.end(), 0);
  if (missing != out.copies.end()) {
    bad_plan(plan, l, fmt::format("expert {} has no copy on any GPU.", missing - out.copies.begin()));
  }
  for (const int e : from.slots) {
    out.share.push_back(1.0F / static_cast<float>(out.copies[static_cast<std::size_t>(e)]));
  }
  return out;
}

// The mean over sources becomes the layer's share; a single source needs no table beside it.
void set_shares(LayerPlacement& layer, SourceShares shares, int gpus) {
  const std::size_t slots = layer.expert.size();
  EPSIM_CHECK(shares.gpus_per_source > 0 && gpus % shares.gpus_per_source == 0, "sources are equal runs of GPUs");
  const auto sources = static_cast<std::size_t>(gpus / shares.gpus_per_source);
  EPSIM_CHECK(shares.share.size() == sources * slots, "one share per source and slot");
  std::vector<double> mean(slots, 0.0);
  for (std::size_t s = 0; s < sources; ++s) {
    std::vector<double> sum(layer.copies.size(), 0.0);
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const auto share = static_cast<double>(shares.share[s * slots + slot]);
      EPSIM_CHECK(share >= 0, "shares are not negative");
      sum[static_cast<std::size_t>(layer.expert[slot])] += share;
      mean[slot] += share / static_cast<double>(sources);
    }
    EPSIM_CHECK(std::all_of(sum.begin(), sum.end(), [](double x) { return std::abs(x - 1.0) < 1e-4; }),
                "the copies of an expert serve every token of a source once");
  }
  layer.share.assign(mean.begin(), mean.end());
  if (sources > 1) {
    layer.by_source = std::move(shares);
  }
}

// `values` of each EP rank's slots once for every GPU of the rank.
template <class T>
std::vector<T> on_every_gpu(std::span<const T> values, std::span<const std::int32_t> first_slot, int moe_tp) {
  std::vector<T> out;
  for (std::size_t r = 0; r + 1 < first_slot.size(); ++r) {
    for (int i = 0; i < moe_tp; ++i) {
      out.insert(out.end(), values.begin() + first_slot[r], values.begin() + first_slot[r + 1]);
    }
  }
  return out;
}

// A layer of EP ranks as one of GPUs, each with a share of all of its rank's experts. Shares stay: every GPU of the
// rank has all of the rows.
void split_ranks(LayerPlacement& layer, int moe_tp) {
  const std::vector<std::int32_t> ranks = layer.first_slot;
  layer.expert = on_every_gpu<std::int32_t>(layer.expert, ranks, moe_tp);
  layer.share = on_every_gpu<float>(layer.share, ranks, moe_tp);
  if (!layer.by_source.empty()) {
    const auto slots = static_cast<std::size_t>(ranks.back());
    std::vector<float> shares;
    for (std::size_t at = 0; at < layer.by_source.share.size(); at += slots) {
      const auto source = on_every_gpu(std::span<const float>(layer.by_source.share).subspan(at, slots), ranks, moe_tp);
      shares.insert(shares.end(), source.begin(), source.end());
    }
    layer.by_source = {layer.by_source.gpus_per_source * moe_tp, std::move(shares)};
  }
  layer.first_slot = {0};
  for (std::size_t r = 0; r + 1 < ranks.size(); ++r) {
    for (int i = 0; i < moe_tp; ++i) {
      layer.first_slot.push_back(layer.first_slot.back() + ranks[r + 1] - ranks[r]);
    }
  }
}

}  // namespace

LayerPlan uniform_layer(std::vector<int> slots, int gpus) {
  EPSIM_CHECK(gpus > 0 && slots.size() % static_cast<std::size_t>(gpus) == 0, "slots divide over the GPUs");
  const int per_gpu = static_cast<int>(slots.size()) / gpus;
  LayerPlan out{.slots = std::move(slots), .first_slot = {}, .copy_rank = {}};
  for (int g = 0; g <= gpus; ++g) {
    out.first_slot.push_back(g * per_gpu);
  }
  return out;
}

LayerPlan layer_of_gpus(const std::vector<std::vector<int>>& slots) {
  LayerPlan out{.slots = {}, .first_slot = {0}, .copy_rank = {}};
  for (const std::vector<int>& gpu : slots) {
    out.slots.insert(out.slots.end(), gpu.begin(), gpu.end());
    out.first_slot.push_back(static_cast<int>(out.slots.size()));
  }
  return out;
}

int PlacementPlan::copies() const {
  int out = 0;
  for (const LayerPlan& layer : layers) {
    out += static_cast<int>(layer.slots.size()) - experts;
  }
  return out;
}

int PlacementPlan::beyond_even_share() const {
  std::vector<int> slots(static_cast<std::size_t>(gpus), 0);
  for (const LayerPlan& layer : layers) {
    for (int g = 0; g < gpus; ++g) {
      const auto at = static_cast<std::size_t>(g);
      slots[at] += layer.first_slot[at + 1] - layer.first_slot[at];
    }
  }
  const int base = experts * static_cast<int>(layers.size()) / gpus;
  return *std::max_element(slots.begin(), slots.end()) - base;
}

int PlacementPlan::most_in_a_layer() const {
  int out = 0;
  for (const LayerPlan& layer : layers) {
    for (std::size_t g = 0; g + 1 < layer.first_slot.size(); ++g) {
      out = std::max(out, layer.first_slot[g + 1] - layer.first_slot[g]);
    }
  }
  return out;
}

Placement Placement::build(const PlacementPlan& plan, const ClusterShape& shape, Bytes expert_bytes,
                           Bytes expert_memory, std::vector<SourceShares> shares, int moe_tp) {
  EPSIM_CHECK(shares.empty() || shares.size() == plan.layers.size(), "one entry per layer");
  refuse_if(
      plan.gpus * moe_tp != shape.gpus, "policy",
      fmt::format("the plan of '{}' is for {} GPUs, the cluster has {}.", plan.policy, plan.gpus * moe_tp, shape.gpus));
  refuse_if(plan.layers.empty() && plan.experts > 0, "policy",
            fmt::format("the plan of '{}' has no layer.", plan.policy));
  Placement out;
  out.experts_ = plan.experts;
  out.gpus_ = shape.gpus;
  out.resident_.assign(static_cast<std::size_t>(shape.gpus), 0);
  for (int l = 0; l < static_cast<int>(plan.layers.size()); ++l) {
    out.layers_.push_back(build_layer(plan, l));
    if (!shares.empty()) {
      set_shares(out.layers_.back(), std::move(shares[static_cast<std::size_t>(l)]), plan.gpus);
    }
    if (moe_tp > 1) {
      split_ranks(out.layers_.back(), moe_tp);
    }
    for (std::size_t g = 0; g < out.resident_.size(); ++g) {
      out.resident_[g] += out.layers_.back().first_slot[g + 1] - out.layers_.back().first_slot[g];
    }
  }
  for (int g = 0; g < shape.gpus; ++g) {
    const Bytes need = expert_bytes * static_cast<double>(out.resident(g));
    if (need > expert_memory) {
      const std::string what = moe_tp > 1 ? fmt::format("1/{} of the {} experts", moe_tp, out.resident(g))
                                          : fmt::format("the {} experts", out.resident(g)),
                        whose = plan.beyond_even_share() > 0 ? fmt::format("that policy '{}' places on it", plan.policy)
                                : moe_tp > 1                 ? "of its EP rank"
                                                             : "of its even share";
      throw DoesNotFit(g, need, expert_memory, what + " " + whose, plan.copies() > 0);
    }
  }
  return out;
}

Placement Placement::last_layer_alone() const {
  if (layers_.empty()) {
    return *this;
  }
  const int l = layers() - 1;
  Placement out;
  out.experts_ = experts_;
  out.gpus_ = gpus_;
  out.layers_ = {layer(l)};
  for (int g = 0; g < gpus_; ++g) {
    out.resident_.push_back(layer(l).first_slot[g + 1] - layer(l).first_slot[g]);
  }
  return out;
}

std::int64_t Placement::max_resident() const { return *std::max_element(resident_.begin(), resident_.end()); }

std::vector<double> Placement::gpu_loads(int l, std::span<const double> expert_loads) const {
  const LayerPlacement& at = layer(l);
  std::vector<double> loads(static_cast<std::size_t>(gpus_), 0.0);
  for (std::size_t g = 0; g < loads.size(); ++g) {
    for (int s = at.first_slot[g]; s < at.first_slot[g + 1]; ++s) {
      const auto slot = static_cast<std::size_t>(s);
      loads[g] += expert_loads[static_cast<std::size_t>(at.expert[slot])] * static_cast<double>(at.share[slot]);
    }
  }
  return loads;
}

std::vector<double> balancedness_by_layer(const Placement& placement, const LoadWindow& load) {
  EPSIM_CHECK(placement.layers() == load.layers() && placement.experts() == load.experts(), "one model, one shape");
  std::vector<double> out;
  for (int l = 0; l < placement.layers(); ++l) {
    out.push_back(balancedness(placement.gpu_loads(l, load.layer(l))));
  }
  return out;
}

}  // namespace epsim
