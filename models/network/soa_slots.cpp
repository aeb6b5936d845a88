#include "models/network/soa_slots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "models/network/miss_probability.h"
#include "sim/core/simd.h"
#include "sim/core/vector_exp.h"

namespace epsim {
namespace {

constexpr int kWhole = 8;       // lanes: two AVX2 registers, so that loops over lanes leave no rest
constexpr double kEnd = 16.0;   // 1 from here on, which is off by 2e-7
constexpr double kSure = 40.0;  // e^-kSure is no chance

// Without a call, so that the loop over GPUs becomes vectors.
inline double at_least_one_of(double mean) {
  auto none = static_cast<float>(mean < kEnd ? -mean : -kEnd);
  exp_lanes<float, std::uint32_t>(none);
  const double some = 1.0 - static_cast<double>(none);
  return mean < kEnd ? some : 1.0;
}

// The chance that of 1 / share times so many rows at least one is here, each with chance `share` = 1 - e^-missed. Parts
// of a row are chances of one.
inline double at_least_one_of_drawn(double here, double missed_per_row) {
  auto none = static_cast<float>(-missed_per_row * here);
  exp_lanes<float, std::uint32_t>(none);
  const double some = 1.0 - static_cast<double>(none);
  return here < some ? here : some;
}
// The same where every row comes here.
inline double at_least_one_of_whole(double rows) { return rows < 1.0 ? rows : 1.0; }

// Of a row that a slot gets with chance `share`: -ln(1 - share) / share.
double missed_per_row(double share) { return -std::log1p(-share) / std::max(share, 1e-9); }

// What the slots of all GPUs hold, and where their experts' chances are.
struct Columns {
  const double *share, *pi;  // [column][stride]
  std::size_t columns, stride;
};

// MissProbability of every lane while the exponents are small; true if one is not, which makes all of them void.
EPSIM_SIMD bool reach_of(const Columns& slots, double weight, double* __restrict out, double* __restrict missed,
                         double* __restrict exponent, double* __restrict sum) {
  const std::size_t lanes = slots.stride;
  std::fill_n(missed, lanes, 1.0);
  std::fill_n(sum, lanes, 0.0);
  std::fill_n(exponent, lanes, 0.0);  // of squares, at first
  for (std::size_t c = 0; c < slots.columns; ++c) {
    const double *pi = slots.pi + c * lanes, *shares = slots.share + c * lanes;
    for (std::size_t g = 0; g < lanes; ++g) {
      const double p = pi[g], share = shares[g];
      const double used = p * share;
      const double partly = used * (1.0 - p) * (1.0 + used * (1.0 + used));
      const double u = share == 1.0 ? used : partly;
      missed[g] *= 1.0 - used;
      sum[g] += u;
      exponent[g] += u * u;
    }
  }
  std::int64_t large = 0;
  for (std::size_t g = 0; g < lanes; ++g) {
    const double x = (sum[g] * sum[g] - exponent[g]) * weight;
    exponent[g] = x;
    large |= x >= MissProbability::kSmall ? 1 : 0;
    out[g] = 1.0 - missed[g] * MissProbability::exp_of_small(x);
  }
  return large != 0;
}

// What independent experts miss, to the power of how they are used together.
EPSIM_SIMD void reach_together(const double* __restrict missed, const double* __restrict exponent,
                               const double* __restrict power, std::size_t lanes, double* __restrict out) {
  for (std::size_t g = 0; g < lanes; ++g) {
    const double miss = missed[g] > MissProbability::kLeast ? missed[g] : MissProbability::kLeast;
    out[g] = 1.0 - exp_of(power[g] * (log_of(miss) - exponent[g]));
  }
}

// Rows of every slot of expert_rows scale in all, and of every GPU; whether all slots that hold an expert have so many
// that one is certain.
EPSIM_SIMD bool rows_of(const Columns& slots, double scale, double* __restrict here, double* __restrict rows) {
  const std::size_t lanes = slots.stride;
  std::int64_t few = 0;
  for (std::size_t c = 0; c < slots.columns; ++c) {
    const double *pi = slots.pi + c * lanes, *share = slots.share + c * lanes;
    double* slot = here + c * lanes;
    for (std::size_t g = 0; g < lanes; ++g) {
      const double x = pi[g] * scale * share[g];
      slot[g] = x;
      rows[g] += x;
      few |= (share[g] > 0 ? 1 : 0) & (x < kEnd ? 1 : 0);
    }
  }
  return few == 0;
}

EPSIM_SIMD void touch_column(const double* __restrict here, std::size_t gpus, double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += at_least_one_of(here[g]);
  }
}
EPSIM_SIMD void touch_drawn_column(const double* __restrict here, const double* __restrict missed, std::size_t gpus,
                                   double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += at_least_one_of_drawn(here[g], missed[g]);
  }
}
EPSIM_SIMD void touch_whole_column(const double* __restrict here, std::size_t gpus, double* __restrict touched) {
  for (std::size_t g = 0; g < gpus; ++g) {
    touched[g] += at_least_one_of_whole(here[g]);
  }
}

// The same of the slots of one GPU, and their rows.
EPSIM_SIMD void rows_of_one(const double* __restrict pi, const double* __restrict share, std::size_t columns,
                            double scale, double* __restrict rows) {
  for (std::size_t c = 0; c < columns; ++c) {
    rows[c] = pi[c] * scale * share[c];
  }
}
EPSIM_SIMD void add_column(const double* __restrict share, const double* __restrict pi, const double* __restrict tokens,
                           std::size_t lanes, double* __restrict rows) {
  for (std::size_t i = 0; i < lanes; ++i) {
    rows[i] += tokens[i] * pi[i] * share[i];
  }
}

template <class Value>
EPSIM_INLINE void gather_into(const Value* __restrict from, const std::int32_t* __restrict expert, std::size_t n,
                              double* __restrict to) {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = static_cast<double>(from[expert[i]]);
  }
}
EPSIM_SIMD void gather_floats(const float* from, const std::int32_t* expert, std::size_t n, double* to) {
  gather_into(from, expert, n, to);
}
EPSIM_SIMD void gather_doubles(const double* from, const std::int32_t* expert, std::size_t n, double* to) {
  gather_into(from, expert, n, to);
}

}  // namespace

double at_least_one(double mean) { return at_least_one_of(mean); }
double at_least_one_drawn(double here, double share) {
  return share < 1 ? at_least_one_of_drawn(here, missed_per_row(share)) : at_least_one_of_whole(here);
}

SoaSlots::SoaSlots(const LayerPlacement& layer, const SourceLanes& lanes) : gpus_(lanes.gpus), gpu_(lanes.gpu) {
  for (int g = 0; g < gpus_; ++g) {
    columns_ = std::max<std::int64_t>(columns_, layer.first_slot[g + 1] - layer.first_slot[g]);
  }
  stride_ = (std::int64_t{lanes.lanes()} + kWhole - 1) / kWhole * kWhole;
  expert_.assign(columns_ * stride_, 0);
  share_.assign(expert_.size(), 0.0);
  held_.assign(gpus_, 0.0);
  for (int i = 0; i < lanes.lanes(); ++i) {
    const std::span<const float> shares = shares_of(layer, lanes.choice[i]);
    const int first = layer.first_slot[gpu_[i]], slots = layer.first_slot[gpu_[i] + 1] - first;
    for (int c = 0; c < slots; ++c) {
      expert_[c * stride_ + i] = layer.expert[first + c];
      share_[c * stride_ + i] = static_cast<double>(shares[first + c]);
    }
  }
  for (int g = 0; g < gpus_; ++g) {
    for (int c = 0; c < columns_; ++c) {
      held_[g] += share_[c * stride_ + g] > 0 ? 1.0 : 0.0;
    }
  }
  if (layer.by_source.empty()) {
    keep_one_of_alike();
  }
  if (std::ranges::any_of(layer.copies, [](int copies) { return copies > 1; })) {
    // Whichever copy a source takes: so many rows come from all of them together.
    one_copy_each_ = !layer.by_source.empty() &&
                     std::ranges::all_of(share_, [](double share) { return share == 0.0 || share == 1.0; });
    for (std::size_t i = 0; i < share_.size(); ++i) {
      const double share = layer.by_source.empty() ? share_[i] : 1.0 / std::max(1, layer.copies[expert_[i]]);
      missed_.push_back(std::min(missed_per_row(share), kSure));
    }
  }
}

void SoaSlots::keep_one_of_alike() {
  alike_ = gpus_ == std::ssize(gpu_) && gpus_ > 1;
  for (int i = 0; i < columns_ * stride_ && alike_; ++i) {
    const std::int64_t first = i / stride_ * stride_;
    alike_ = i - first >= gpus_ || (expert_[i] == expert_[first] && share_[i] == share_[first]);
  }
  if (!alike_) {
    return;
  }
  for (int c = 0; c < columns_; ++c) {
    expert_[c] = expert_[c * stride_];
    share_[c] = share_[c * stride_];
  }
  stride_ = 1;
  expert_.resize(columns_);
  share_.resize(columns_);
}

void SoaSlots::gather(std::span<const float> per_expert, SlotValues& out) const {
  out.values.resize(expert_.size());
  gather_floats(per_expert.data(), expert_.data(), expert_.size(), out.values.data());
}

void SoaSlots::gather(std::span<const double> per_expert, SlotValues& out) const {
  out.values.resize(expert_.size());
  gather_doubles(per_expert.data(), expert_.data(), expert_.size(), out.values.data());
}

bool SoaSlots::miss(SlotValues& pi, double weight, std::vector<double>& out) const {
  for (std::vector<double>* values : {&out, &pi.missed, &pi.exponent, &pi.sum}) {
    values->resize(stride_);
  }
  const Columns slots{share_.data(), pi.values.data(), static_cast<std::size_t>(columns_),
                      static_cast<std::size_t>(stride_)};
  const bool large = reach_of(slots, weight, out.data(), pi.missed.data(), pi.exponent.data(), pi.sum.data());
  out.resize(std::min<std::size_t>(stride_, gpu_.size()));
  return large;
}

void SoaSlots::reach(SlotValues& pi, double weight, std::vector<double>& out) const {
  const bool large = miss(pi, weight, out);
  for (std::size_t g = 0; large && g < out.size(); ++g) {
    out[g] = 1.0 - pi.missed[g] * MissProbability::exp_of_minus(pi.exponent[g]);
  }
  out.resize(gpu_.size(), out.front());  // of GPUs that are alike one was worked out
}

void SoaSlots::reach(SlotValues& pi, double weight, std::span<const double> exponents, std::vector<double>& out) const {
  miss(pi, weight, out);
  reach_together(pi.missed.data(), pi.exponent.data(), exponents.data(), out.size(), out.data());
  out.resize(gpu_.size(), out.front());
}

void SoaSlots::sum_rows(const SlotValues& pi, std::vector<double>& out) const {
  out.assign(std::min<std::size_t>(stride_, gpu_.size()), 0.0);
  for (int c = 0; c < columns_; ++c) {
    for (int g = 0; g < std::ssize(out); ++g) {
      out[g] += pi.values[c * stride_ + g] * share_[c * stride_ + g];
    }
  }
  out.resize(gpu_.size(), out.front());
}

void SoaSlots::add_rows(const SlotValues& pi, const std::vector<double>& tokens, std::vector<double>& rows) const {
  rows.resize(share_.size());
  for (int c = 0; c < columns_; ++c) {
    add_column(&share_[c * stride_], &pi.values[c * stride_], tokens.data(), tokens.size(), &rows[c * stride_]);
  }
}

// Of `count` slots, the first of which is number `first` in the columns: here[i] are the i-th one's rows.
void SoaSlots::touch(const double* here, std::int64_t count, std::int64_t first, Counted counted,
                     double* touched) const {
  const auto slots = static_cast<std::size_t>(count);
  if (counted == Counted::kNo) {
    touch_column(here, slots, touched);
  } else if (missed_.empty() || (counted == Counted::kBySource && one_copy_each_)) {
    touch_whole_column(here, slots, touched);
  } else {
    touch_drawn_column(here, missed_.data() + first, slots, touched);
  }
}

void SoaSlots::execute(std::vector<double>& slot_rows, Counted counted, std::vector<double>& rows,
                       std::vector<double>& touched) const {
  rows.assign(gpus_, 0.0);
  touched.assign(gpus_, 0.0);
  for (int c = 0; c < columns_; ++c) {
    double* here = &slot_rows[c * stride_];
    for (int i = gpus_; i < std::ssize(gpu_); ++i) {
      here[gpu_[i]] += here[i];
    }
    std::transform(rows.begin(), rows.end(), here, rows.begin(), std::plus<>());
    touch(here, gpus_, c * stride_, counted, touched.data());
  }
}

void SoaSlots::execute_alike(SlotValues& pi, double scale, Counted counted, std::vector<double>& rows,
                             std::vector<double>& touched) const {
  pi.rows.assign(2 * columns_, 0.0);
  double* const some = pi.rows.data() + columns_;
  rows_of_one(pi.values.data(), share_.data(), columns_, scale, pi.rows.data());
  touch(pi.rows.data(), columns_, 0, counted, some);
  rows.assign(gpus_, std::accumulate(pi.rows.data(), pi.rows.data() + columns_, 0.0));
  touched.assign(gpus_, std::accumulate(some, some + columns_, 0.0));
}

void SoaSlots::execute(SlotValues& pi, double scale, Counted counted, std::vector<double>& rows,
                       std::vector<double>& touched) const {
  if (alike_) {
    execute_alike(pi, scale, counted, rows, touched);
    return;
  }
  rows.assign(stride_, 0.0);
  pi.rows.resize(share_.size());
  const Columns slots{share_.data(), pi.values.data(), static_cast<std::size_t>(columns_),
                      static_cast<std::size_t>(stride_)};
  const bool all_touched = rows_of(slots, scale, pi.rows.data(), rows.data());
  rows.resize(gpus_);
  if (all_touched) {
    touched = held_;
    return;
  }
  touched.assign(gpus_, 0.0);
  for (int c = 0; c < columns_; ++c) {
    const std::int64_t first = c * stride_;
    touch(pi.rows.data() + first, gpus_, first, counted, touched.data());
  }
}

}  // namespace epsim
