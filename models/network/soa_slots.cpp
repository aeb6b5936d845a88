#include "models/network/soa_slots.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "models/network/miss_probability.h"
#include "sim/core/vector_exp.h"
#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

constexpr double kEnd = 16.0;  // 1 from here on, which is off by 2e-7

// GPUs side by side: an AVX-512 register, or several narrower ones.
constexpr std::size_t kLanes = SoaSlots::kLanes;
using Lanes = double __attribute__((vector_size(8 * kLanes)));

EPSIM_INLINE void load(Lanes& x, const double* from) { std::memcpy(&x, from, sizeof x); }
// The block of GPU g; the last one may stick out.
EPSIM_INLINE void store(const Lanes& x, std::vector<double>& to, std::size_t g) {
  if (g + kLanes <= to.size()) {
    std::memcpy(to.data() + g, &x, sizeof x);
  } else {
    std::memcpy(to.data() + g, &x, (to.size() - g) * sizeof(double));
  }
}

// Without a call, so that the loop over GPUs becomes vectors.
inline double at_least_one_of(double mean) {
  auto none = static_cast<float>(mean < kEnd ? -mean : -kEnd);
  exp_lanes<float, std::uint32_t>(none);
  const double some = 1.0 - static_cast<double>(none);
  return mean < kEnd ? some : 1.0;
}

// What the slots of all GPUs hold, and where their experts' chances are.
struct Columns {
  const double *share, *pi;  // [column][stride]
  std::size_t columns, stride;
};

// MissProbability of every GPU while the exponents are small; true if one is not, which makes all of them void.
EPSIM_WIDEST_VECTORS bool reach_of(const Columns& slots, double weight, std::vector<double>& out,
                                   std::vector<double>& missed_of, std::vector<double>& exponent) {
  const Lanes one = Lanes{} + 1.0;
  Lanes highest{};
  for (std::size_t g = 0; g < slots.stride; g += kLanes) {
    Lanes missed = one, sum{}, squares{};
    for (std::size_t at = g; at < slots.columns * slots.stride; at += slots.stride) {
      Lanes p, share;
      load(p, slots.pi + at);
      load(share, slots.share + at);
      const Lanes used = p * share;
      const Lanes partly = used * (1.0 - p) * (1.0 + used * (1.0 + used));
      const Lanes u = share == one ? used : partly;
      missed *= 1.0 - used;
      sum += u;
      squares += u * u;
    }
    const Lanes x = (sum * sum - squares) * weight;
    highest = x > highest ? x : highest;
    const Lanes small = 1.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x / 24.0)));  // MissProbability::exp_of_small()
    store(1.0 - missed * small, out, g);
    store(missed, missed_of, g);
    store(x, exponent, g);
  }
  double largest = 0;
  for (std::size_t k = 0; k < kLanes; ++k) {
    largest = std::max(largest, highest[k]);
  }
  return largest >= MissProbability::kSmall;
}

// Rows of every slot of expert_rows scale in all, and of every GPU; whether all slots that hold an expert have so many
// that one is certain.
EPSIM_WIDEST_VECTORS bool rows_of(const Columns& slots, double scale, double* __restrict here,
                                  std::vector<double>& rows) {
  const Lanes end = Lanes{} + kEnd, zero{};
  Lanes lowest = end;
  for (std::size_t g = 0; g < slots.stride; g += kLanes) {
    Lanes sum{};
    for (std::size_t at = g; at < slots.columns * slots.stride; at += slots.stride) {
      Lanes p, share;
      load(p, slots.pi + at);
      load(share, slots.share + at);
      const Lanes x = p * scale * share;
      sum += x;
      const Lanes counted = share > zero ? x : end;
      lowest = counted < lowest ? counted : lowest;
      std::memcpy(here + at, &x, sizeof x);
    }
    store(sum, rows, g);
  }
  double least = kEnd;
  for (std::size_t k = 0; k < kLanes; ++k) {
    least = std::min(least, lowest[k]);
  }
  return least >= kEnd;
}

EPSIM_WIDEST_VECTORS void touch_column(const double* __restrict here, std::size_t gpus, double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += at_least_one_of(here[g]);
  }
}

template <class Value>
EPSIM_INLINE void gather_into(const Value* __restrict from, const std::int32_t* __restrict expert, std::size_t n,
                              double* __restrict to) {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = static_cast<double>(from[expert[i]]);
  }
}
EPSIM_WIDEST_VECTORS void gather_floats(const float* from, const std::int32_t* expert, std::size_t n, double* to) {
  gather_into(from, expert, n, to);
}
EPSIM_WIDEST_VECTORS void gather_doubles(const double* from, const std::int32_t* expert, std::size_t n, double* to) {
  gather_into(from, expert, n, to);
}

}  // namespace

double at_least_one(double mean) { return at_least_one_of(mean); }

SoaSlots::SoaSlots(const LayerPlacement& layer) : gpus_(static_cast<int>(layer.first_slot.size()) - 1) {
  struct Lane {
    int gpu;
    const float* share;  // [slot of the layer]
    auto slots(const LayerPlacement& at) const {
      return std::span(share + at.first_slot[gpu], share + at.first_slot[gpu + 1]);
    }
  };
  std::vector<Lane> lanes;
  std::map<std::pair<int, std::vector<float>>, int> known;
  const std::vector<float>& by_source = layer.by_source.share;
  for (std::size_t at = 0; at < by_source.size(); at += layer.expert.size()) {
    for (int g = 0; g < gpus_; ++g) {
      const Lane lane{g, by_source.data() + at};
      const auto shares = lane.slots(layer);
      const auto [place, is_new] = known.try_emplace({g, {shares.begin(), shares.end()}}, std::ssize(lanes));
      lane_of_.push_back(place->second);
      if (is_new) {
        lanes.push_back(lane);
      }
    }
  }
  for (int g = 0; g < gpus_; ++g) {
    columns_ = std::max(columns_, layer.first_slot[g + 1] - layer.first_slot[g]);
    if (by_source.empty()) {
      lanes.push_back({g, layer.share.data()});
    }
  }
  lanes_ = static_cast<int>(lanes.size());
  constexpr int kWhole = kLanes;
  stride_ = (lanes_ + kWhole - 1) / kWhole * kWhole;
  expert_.assign(static_cast<std::size_t>(columns_) * stride_, 0);
  share_.assign(expert_.size(), 0.0);
  held_.assign(lanes_, 0.0);
  for (int i = 0; i < lanes_; ++i) {
    const int first = layer.first_slot[lanes[i].gpu];
    const auto shares = lanes[i].slots(layer);
    first_slot_.push_back(first);
    slot_count_.push_back(static_cast<std::int32_t>(shares.size()));
    for (int c = 0; c < std::ssize(shares); ++c) {
      expert_[c * stride_ + i] = layer.expert[first + c];
      share_[c * stride_ + i] = static_cast<double>(shares[c]);
      held_[i] += shares[c] > 0 ? 1.0 : 0.0;
    }
  }
}

void SoaSlots::gather(std::span<const float> per_expert, SlotValues& out) const {
  out.values.resize(expert_.size());
  gather_floats(per_expert.data(), expert_.data(), expert_.size(), out.values.data());
}

void SoaSlots::gather(std::span<const double> per_expert, SlotValues& out) const {
  out.values.resize(expert_.size());
  gather_doubles(per_expert.data(), expert_.data(), expert_.size(), out.values.data());
}

void SoaSlots::reach(SlotValues& pi, double weight, std::vector<double>& out) const {
  for (std::vector<double>* values : {&out, &pi.missed, &pi.exponent}) {
    values->resize(lanes_);
  }
  const Columns slots{share_.data(), pi.values.data(), static_cast<std::size_t>(columns_),
                      static_cast<std::size_t>(stride_)};
  const bool large = reach_of(slots, weight, out, pi.missed, pi.exponent);
  for (int g = 0; large && g < lanes_; ++g) {
    out[g] = 1.0 - pi.missed[g] * MissProbability::exp_of_minus(pi.exponent[g]);
  }
}

void SoaSlots::sum_rows(const SlotValues& pi, std::vector<double>& out) const {
  out.assign(lanes_, 0.0);
  for (int c = 0; c < columns_; ++c) {
    for (int g = 0; g < lanes_; ++g) {
      out[g] += pi.values[c * stride_ + g] * share_[c * stride_ + g];
    }
  }
}

void SoaSlots::add_rows(const SlotValues& pi, std::span<const double> tokens, std::vector<double>& rows) const {
  for (int i = 0; i < lanes_; ++i) {
    for (int c = 0; c < slot_count_[i]; ++c) {
      const std::size_t at = static_cast<std::size_t>(c) * stride_ + i;
      rows[first_slot_[i] + c] += tokens[i] * pi.values[at] * share_[at];
    }
  }
}

void SoaSlots::execute(SlotValues& pi, double scale, std::vector<double>& rows, std::vector<double>& touched) const {
  rows.resize(gpus_);
  pi.rows.resize(share_.size());
  const Columns slots{share_.data(), pi.values.data(), static_cast<std::size_t>(columns_),
                      static_cast<std::size_t>(stride_)};
  if (rows_of(slots, scale, pi.rows.data(), rows)) {
    touched = held_;
    return;
  }
  touched.assign(gpus_, 0.0);
  for (int c = 0; c < columns_; ++c) {
    touch_column(pi.rows.data() + c * stride_, gpus_, touched.data());
  }
}

}  // namespace epsim
