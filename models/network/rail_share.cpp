#include "models/network/rail_share.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "sim/core/simd.h"

namespace epsim {
namespace {

constexpr std::size_t kTimes = 32;
// As FairShare's: where all NICs of a rail send, the least at least this part of the most, nobody idles for long; and
// senders that end within this part of the last one's time count as ending with it.
constexpr double kAllSend = 0.5;
constexpr double kWithLast = 0.75;
// The sums of a sender's flows in two orders differ by less than this part.
constexpr double kRounding = 1e-9;

using Lanes = double __attribute__((vector_size(32)));
constexpr std::size_t kInLanes = sizeof(Lanes) / sizeof(double), kTimesAtOnce = 2 * kInLanes;

// Adds to `until` [NIC][time], of `nics` NICs, what a sender has left of its flows to a NIC's GPUs at each time, when all
// are served up to `levels` [time]. A NIC's GPUs are next to each other, those of the next NIC `stride` GPUs further.
EPSIM_SIMD void add_left(const double* to, std::size_t gpus, std::size_t stride, std::size_t nics, const double* levels,
                         std::size_t times, double* until) {
  for (std::size_t nic = 0; nic < nics; ++nic, to += stride, until += times) {
    for (std::size_t t = 0; t < times; t += kTimesAtOnce) {
      Lanes early, late, early_level, late_level;
      std::memcpy(&early, until + t, sizeof early);
      std::memcpy(&late, until + t + kInLanes, sizeof late);
      std::memcpy(&early_level, levels + t, sizeof early);
      std::memcpy(&late_level, levels + t + kInLanes, sizeof late);
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        const Lanes early_left = to[gpu] - early_level, late_left = to[gpu] - late_level;
        early += early_left > 0 ? early_left : Lanes{};
        late += late_left > 0 ? late_left : Lanes{};
      }
      std::memcpy(until + t, &early, sizeof early);
      std::memcpy(until + t + kInLanes, &late, sizeof late);
    }
  }
}

}  // namespace

RailShare::RailShare(const ClusterShape& shape, int gpus_per_nic)
    : pxn_(shape, gpus_per_nic),
      nodes_(shape.nodes()),
      per_nic_(gpus_per_nic),
      rails_(pxn_.rails_per_node()),
      after_(rails_),
      receivers_(rails_ * nodes_ * per_nic_),
      senders_(nodes_) {}

// A sender has nodes - 1 NICs to serve, so as many senders at once fill a receiver.
bool RailShare::anybody_idles(const std::vector<double>& sent, std::size_t rail) const {
  const auto of_node = [&](std::size_t node) { return sent[(node * rails_ + rail) * per_nic_]; };  // its relay's
  double most = 0, least = std::numeric_limits<double>::infinity();
  for (std::size_t node = 0; node < nodes_; ++node) {
    most = std::max(most, of_node(node));
    least = std::min(least, of_node(node));
  }
  std::size_t filling = 0;
  for (std::size_t node = 0; node < nodes_; ++node) {
    filling += of_node(node) >= kWithLast * most ? 1 : 0;
  }
  return most > 0 && least < kAllSend * most && filling < nodes_ - 1;
}

// Rails where a receiver may idle, and what their last senders send: no other is looked at yet. Receivers are much
// alike hot for all senders, so that their order is nearly that of each sender's flows.
void RailShare::find_rails(const PortRows& ports) {
  idle_rails_.clear();
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    if (anybody_idles(ports.inter_out, rail)) {
      idle_rails_.push_back(rail);
      after_[rail] = 0;
      for (std::size_t node = 0; node < nodes_; ++node) {
        after_[rail] = std::max(after_[rail], ports.inter_out[(node * rails_ + rail) * per_nic_]);
      }
      sort_receivers(rail, ports.inter_in);
    }
  }
}

void RailShare::sort_receivers(std::size_t rail, const std::vector<double>& received) {
  const auto gpu_of = [&](std::size_t i) { return (i / per_nic_ * rails_ + rail) * per_nic_ + i % per_nic_; };
  received_.resize(nodes_ * per_nic_);
  for (std::size_t i = 0; i < received_.size(); ++i) {
    received_[i] = received[gpu_of(i)];
  }
  const std::vector<std::int64_t>& ranks = order_.ranks(received_);
  for (std::size_t i = 0; i < received_.size(); ++i) {
    receivers_[rail * received_.size() + ranks[i]] = static_cast<int>(gpu_of(i));
  }
}

// Whether a node sends on a rail for as long as after_ says.
bool RailShare::counts(const std::vector<double>& sent, std::size_t node, std::size_t rail) const {
  return sent[(node * rails_ + rail) * per_nic_] >= after_[rail] * (1.0 - kRounding);
}

void RailShare::choose(const TrafficMatrix& traffic, Direction direction, const std::vector<double>& sent) {
  senders_at_.clear();
  for (std::size_t node = 0; node < nodes_; ++node) {
    if (std::any_of(idle_rails_.begin(), idle_rails_.end(),
                    [&](std::size_t rail) { return counts(sent, node, rail); })) {
      senders_at_.push_back(static_cast<int>(node));
    }
  }
  if (!senders_at_.empty()) {
    pxn_.node_rows(traffic, direction, senders_at_, rows_);
  }
}

void RailShare::gather(const std::vector<double>& sent, std::size_t rail) {
  active_ = 0;
  for (std::size_t a = 0; a < senders_at_.size(); ++a) {
    if (counts(sent, senders_at_[a], rail)) {
      senders_[active_].to = rows_.data() + a * nodes_ * rails_ * per_nic_;
      fill(senders_[active_++], rail);
    }
  }
}

void RailShare::fill(Sender& sender, std::size_t rail) const {
  const std::size_t flows = nodes_ * per_nic_;
  sender.sizes.resize(flows);
  double* sizes = sender.sizes.data();
  std::size_t n = 0;
  for (const int* gpu = receivers_.data() + rail * flows; gpu != receivers_.data() + (rail + 1) * flows; ++gpu) {
    const double size = sender.to[*gpu];
    if (size == 0) {
      continue;
    }
    std::size_t at = n++;
    for (; at > 0 && sizes[at - 1] < size; --at) {
      sizes[at] = sizes[at - 1];
    }
    sizes[at] = size;
  }
  sender.sizes.resize(n);
  sender.ends_at.resize(n);
  double smaller = 0;
  for (std::size_t i = n; i-- > 0;) {  // i larger flows have been served as much as this one
    sender.ends_at[i] = smaller + static_cast<double>(i + 1) * sizes[i];
    smaller += sizes[i];
  }
  sender.rows = smaller;
}

// Up to what size a sender's flows have been served by each of `times`, which fall.
void RailShare::levels_at(const Sender& sender, const double* times, std::size_t n, double* levels) {
  const std::size_t flows = sender.sizes.size();
  const double *sizes = sender.sizes.data(), *ends_at = sender.ends_at.data();
  std::size_t alive = 0;  // flows that have not ended
  for (std::size_t t = 0; t < n; ++t) {
    const double time = times[t];
    while (alive < flows && ends_at[alive] > time) {
      ++alive;
    }
    const double size = alive == flows ? 0.0 : sizes[alive], served = alive == flows ? 0.0 : ends_at[alive];
    levels[t] = time >= sender.rows ? std::numeric_limits<double>::infinity()
                                    : size + (time - served) / static_cast<double>(alive);
  }
}

const RailShare::Sender& RailShare::last() const {
  return *std::max_element(senders_.begin(), senders_.begin() + active_,
                           [](const Sender& a, const Sender& b) { return a.rows < b.rows; });
}

// The first of the times that wait_on() looks at.
double RailShare::earliest_time() const {
  const std::vector<double>& ends = last().ends_at;
  return ends.empty() ? 0.0 : ends[std::min(kTimes, ends.size()) - 1];
}

void RailShare::wait_on(std::size_t rail, double max_rows, FairShare::Wait& out) {
  const std::vector<double>&ends_at = last().ends_at, &sizes = last().sizes;
  times_.clear();
  for (std::size_t i = 0; i < std::min(kTimes, ends_at.size()); ++i) {
    if (i == 0 || sizes[i] != sizes[i - 1]) {  // equal flows end together
      times_.push_back(ends_at[i]);
    }
  }
  const std::size_t times = times_.size(), n = (times + kTimesAtOnce - 1) / kTimesAtOnce * kTimesAtOnce;
  times_.resize(n, 0.0);
  levels_.resize(n);  // past the last time they do not matter
  until_.clear();
  for (std::size_t node = 0; node < nodes_; ++node) {
    until_.insert(until_.end(), times_.begin(), times_.end());
  }
  for (std::size_t a = 0; a < active_; ++a) {
    levels_at(senders_[a], times_.data(), times, levels_.data());
    add_left(senders_[a].to + rail * per_nic_, per_nic_, rails_ * per_nic_, nodes_, levels_.data(), n, until_.data());
  }
  for (std::size_t t = 0; t < times; ++t) {
    for (std::size_t node = 0; node < nodes_; ++node) {
      if (const double until = until_[node * n + t]; until > max_rows && until > out.rows) {
        out = {until, static_cast<int>(node * rails_ + rail)};
      }
    }
  }
}

// First with the last senders alone, which say from when on the others count. On a rail where none does then, receivers
// wait for the last one alone.
FairShare::Wait RailShare::longest(const TrafficMatrix& traffic, Direction direction, const PortRows& ports,
                                   double max_rows) {
  const std::vector<double>& sent = ports.inter_out;
  FairShare::Wait out;
  find_rails(ports);
  choose(traffic, direction, sent);
  for (const std::size_t rail : idle_rails_) {
    gather(sent, rail);
    after_[rail] = earliest_time();
  }
  std::erase_if(idle_rails_, [&](std::size_t rail) {
    std::size_t senders = 0;
    for (std::size_t node = 0; node < nodes_; ++node) {
      senders += counts(sent, node, rail) ? 1 : 0;
    }
    return senders < 2;
  });
  choose(traffic, direction, sent);
  for (const std::size_t rail : idle_rails_) {
    gather(sent, rail);
    wait_on(rail, max_rows, out);
  }
  return out;
}

}  // namespace epsim
