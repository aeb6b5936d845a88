#include "models/network/slot_columns.h"

#include <algorithm>

#include "models/network/miss_chance.h"
#include "sim/core/vector_exp.h"
#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

constexpr double kEnd = 16.0;  // 1 from here on, which is off by 2e-7

// Without a call, so that the loop over GPUs becomes vectors.
inline double at_least_one_of(double mean) {
  auto none = static_cast<float>(mean < kEnd ? -mean : -kEnd);
  exp_lanes<float, std::uint32_t>(none);
  const double some = 1.0 - static_cast<double>(none);
  return mean < kEnd ? some : 1.0;
}

// Adds a copy of every GPU, MissChance::add() lane by lane.
EPSIM_WIDEST_VECTORS void add_column(const std::int32_t* __restrict expert, const double* __restrict share,
                                     const double* __restrict pi, std::size_t gpus, double* __restrict missed,
                                     double* __restrict sum, double* __restrict squares) {
  for (std::size_t g = 0; g < gpus; ++g) {
    const double p = pi[expert[g]], used = p * share[g];
    const double partly = used * (1.0 - p) * (1.0 + used * (1.0 + used));
    const double u = share[g] == 1.0 ? used : partly;
    missed[g] *= 1.0 - used;
    sum[g] += u;
    squares[g] += u * u;
  }
}

// MissChance::value() of every GPU while the exponents are small; true if one is not, which makes all of them void.
EPSIM_WIDEST_VECTORS bool reach_of(const double* __restrict missed, const double* __restrict sum,
                                   const double* __restrict squares, double weight, std::size_t gpus,
                                   double* __restrict out) {
  std::int64_t large = 0;
  for (std::size_t g = 0; g < gpus; ++g) {
    const double x = (sum[g] * sum[g] - squares[g]) * weight;
    out[g] = 1.0 - missed[g] * MissChance::exp_of_small(x);
    large += x < MissChance::kSmall ? 0 : 1;
  }
  return large > 0;
}

// Rows of every GPU's slot; whether all slots that take part have so many that one is certain.
EPSIM_WIDEST_VECTORS bool rows_of_column(const std::int32_t* __restrict expert, const double* __restrict share,
                                         const double* __restrict expert_rows, std::size_t gpus,
                                         double* __restrict here, double* __restrict rows) {
  std::int64_t few = 0;
  for (std::size_t g = 0; g < gpus; ++g) {
    here[g] = expert_rows[expert[g]] * share[g];
    rows[g] += here[g];
    few += here[g] < kEnd && share[g] > 0 ? 1 : 0;
  }
  return few == 0;
}

EPSIM_WIDEST_VECTORS void touch_column(const double* __restrict here, std::size_t gpus, double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += at_least_one_of(here[g]);
  }
}

EPSIM_WIDEST_VECTORS void touch_all(const double* __restrict share, std::size_t gpus, double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += share[g] > 0 ? 1.0 : 0.0;
  }
}

}  // namespace

double at_least_one(double mean) { return at_least_one_of(mean); }

SlotColumns::SlotColumns(const LayerPlacement& layer) : gpus_(layer.first_slot.size() - 1) {
  for (std::size_t g = 0; g < gpus_; ++g) {
    columns_ = std::max(columns_, static_cast<std::size_t>(layer.first_slot[g + 1] - layer.first_slot[g]));
  }
  expert_.assign(columns_ * gpus_, 0);
  share_.assign(columns_ * gpus_, 0.0);
  for (std::size_t g = 0; g < gpus_; ++g) {
    const auto first = static_cast<std::size_t>(layer.first_slot[g]);
    const auto slots = static_cast<std::size_t>(layer.first_slot[g + 1]) - first;
    for (std::size_t c = 0; c < slots; ++c) {
      expert_[c * gpus_ + g] = layer.expert[first + c];
      share_[c * gpus_ + g] = static_cast<double>(layer.share[first + c]);
    }
  }
}

void SlotColumns::reach(std::span<const float> pi, double weight, ReachSums& scratch, std::vector<double>& out) const {
  scratch.pi.assign(pi.begin(), pi.end());
  scratch.missed.assign(gpus_, 1.0);
  scratch.sum.assign(gpus_, 0.0);
  scratch.squares.assign(gpus_, 0.0);
  for (std::size_t c = 0; c < columns_; ++c) {
    add_column(expert_.data() + c * gpus_, share_.data() + c * gpus_, scratch.pi.data(), gpus_, scratch.missed.data(),
               scratch.sum.data(), scratch.squares.data());
  }
  out.resize(gpus_);
  const bool large =
      reach_of(scratch.missed.data(), scratch.sum.data(), scratch.squares.data(), weight, gpus_, out.data());
  for (std::size_t g = 0; large && g < gpus_; ++g) {
    out[g] = 1.0 - MissChance::value(scratch.missed[g], scratch.sum[g], scratch.squares[g], weight);
  }
}

void SlotColumns::sum_rows(std::span<const float> pi, std::vector<double>& out) const {
  out.assign(gpus_, 0.0);
  for (std::size_t c = 0; c < columns_; ++c) {
    for (std::size_t g = 0; g < gpus_; ++g) {
      const std::size_t at = c * gpus_ + g;
      out[g] += static_cast<double>(pi[static_cast<std::size_t>(expert_[at])]) * share_[at];
    }
  }
}

void SlotColumns::execute(std::span<const double> expert_rows, std::vector<double>& scratch, std::vector<double>& rows,
                          std::vector<double>& touched) const {
  rows.assign(gpus_, 0.0);
  touched.assign(gpus_, 0.0);
  scratch.resize(gpus_);
  for (std::size_t c = 0; c < columns_; ++c) {
    const double* share = share_.data() + c * gpus_;
    if (rows_of_column(expert_.data() + c * gpus_, share, expert_rows.data(), gpus_, scratch.data(), rows.data())) {
      touch_all(share, gpus_, touched.data());
    } else {
      touch_column(scratch.data(), gpus_, touched.data());
    }
  }
}

}  // namespace epsim
