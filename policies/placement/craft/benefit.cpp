#include "policies/placement/craft/benefit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "policies/plan_tools.h"
#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/core/simd.h"

namespace epsim {
namespace {

// Batches are taken in chunks of this many: one chunk of all experts stays in the second-level cache while every
// placement is tried on it.
constexpr std::size_t kChunk = 128;

// One slot of a placement: its expert's load per batch and its share of it.
template <class Real>
struct SlotRow {
  const Real* batches;
  Real copies;
};

template <class Real>
struct ReplayPlan {
  std::vector<SlotRow<Real>> slots;
  std::vector<std::size_t> first_slot;
};

template <class Real>
ReplayPlan<Real> replay_plan(const LayerPlan& plan, std::span<const Real* const> rows) {
  const std::vector<int> copies = copies_by_expert(plan, static_cast<int>(rows.size()));
  ReplayPlan<Real> out;
  for (const int e : plan.slots) {
    const auto at = static_cast<std::size_t>(e);
    out.slots.push_back({rows[at], static_cast<Real>(copies[at])});
  }
  out.first_slot.assign(plan.first_slot.begin(), plan.first_slot.end());
  return out;
}

// Adds one slot's share of batches [at, at + n) to a GPU's load. Lanes are independent batches, so results do not
// depend on how wide the machine's vectors are.
template <class Real>
void add_slot(const SlotRow<Real>& slot, std::size_t at, std::size_t n, bool floor_division, Real* __restrict load) {
  const Real* __restrict row = slot.batches + at;
  if (slot.copies == 1) {
    for (std::size_t i = 0; i < n; ++i) {
      load[i] += row[i];
    }
  } else if (floor_division) {
    for (std::size_t i = 0; i < n; ++i) {
      load[i] += std::floor(row[i] / slot.copies);
    }
  } else {
    const Real share = 1 / slot.copies;
    for (std::size_t i = 0; i < n; ++i) {
      load[i] += row[i] * share;
    }
  }
}

// Sum over batches [at, at + n) of mean / max GPU load.
template <class Real>
EPSIM_SIMD double balancedness_of_chunk(const ReplayPlan<Real>& plan, std::size_t at, std::size_t n,
                                        bool floor_division) {
  Real load[kChunk], total[kChunk] = {}, max[kChunk] = {};
  for (std::size_t g = 0; g + 1 < plan.first_slot.size(); ++g) {
    std::fill_n(load, n, Real{0});
    for (std::size_t s = plan.first_slot[g]; s < plan.first_slot[g + 1]; ++s) {
      add_slot(plan.slots[s], at, n, floor_division, load);
    }
    for (std::size_t i = 0; i < n; ++i) {
      total[i] += load[i];
      max[i] = max[i] < load[i] ? load[i] : max[i];
    }
  }
  const auto gpus = static_cast<double>(plan.first_slot.size() - 1);
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += max[i] > 0 ? static_cast<double>(total[i]) / gpus / static_cast<double>(max[i]) : 1.0;
  }
  return sum;
}

template <class Real>
std::vector<double> replay_rows(std::span<const Real* const> rows, std::size_t batches,
                                std::span<const LayerPlan> plans, bool floor_division) {
  const std::vector<ReplayPlan<Real>> prepared =
      mapped(plans, [&](const LayerPlan& plan) { return replay_plan<Real>(plan, rows); });
  std::vector<double> sums(plans.size(), 0.0);
  for (std::size_t at = 0; at < batches; at += kChunk) {
    const std::size_t n = std::min(kChunk, batches - at);
    for (std::size_t p = 0; p < prepared.size(); ++p) {
      sums[p] += balancedness_of_chunk(prepared[p], at, n, floor_division);
    }
  }
  for (double& sum : sums) {
    sum /= static_cast<double>(batches);
  }
  return sums;
}

}  // namespace

std::vector<double> replay(const LoadWindow& load, int layer, std::span<const LayerPlan> plans,
                           const BenefitOptions& options) {
  const auto experts = static_cast<std::size_t>(load.experts());
  if (options.aggregate || load.batches() == 0) {
    std::vector<const double*> rows(experts);
    for (std::size_t e = 0; e < experts; ++e) {
      rows[e] = &load.layer(layer)[e];
    }
    return replay_rows<double>(rows, 1, plans, options.floor_division);
  }
  std::vector<const float*> rows(experts);
  for (std::size_t e = 0; e < experts; ++e) {
    rows[e] = load.batches_of(layer, static_cast<int>(e)).data();
  }
  return replay_rows<float>(rows, static_cast<std::size_t>(load.batches()), plans, options.floor_division);
}

GainTable estimate_gains(const LoadWindow& load, const CraftLayout& layout, const BenefitOptions& options) {
  GainTable out{.counts = craft_counts(layout), .base = {}, .gain = {}};
  out.gain.resize(out.counts.size());
  std::vector<std::vector<int>> capacity;  // of the layer without copies, and with each number of them
  for (std::size_t k = 0; k <= out.counts.size(); ++k) {
    const int physical = load.experts() + (k == 0 ? 0 : out.counts[k - 1]);
    capacity.push_back(assign_capacities(std::span(&physical, 1), layout, options.interleave).front());
  }
  for (int l = 0; l < load.layers(); ++l) {
    const std::vector<LayerPlan> plans = mapped(capacity, [&](const std::vector<int>& slots) {
      return place_layer(load.layer(l), slots, layout, options.packing);
    });
    const std::vector<double> balance = replay(load, l, plans, options);
    out.base.push_back(balance.front());
    for (std::size_t k = 0; k < out.counts.size(); ++k) {
      const double gain = balance[k + 1] - balance.front();
      out.gain[k].push_back(options.clamp ? std::max(gain, 0.0) : gain);
    }
  }
  return out;
}

}  // namespace epsim
