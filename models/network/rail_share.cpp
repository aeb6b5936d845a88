#include "models/network/rail_share.h"

#include <algorithm>
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

// Adds to `until` [receiving node] what flows, as in RailShare, lack above their sender's level.
EPSIM_SIMD void add_left(const double* __restrict flows, const double* __restrict levels, std::size_t nodes,
                         std::size_t per_nic, double* __restrict until) {
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t i = 0; i < per_nic && levels[a] < std::numeric_limits<double>::infinity(); ++i) {
      const double* to = flows + (a * per_nic + i) * nodes;
      for (std::size_t b = 0; b < nodes; ++b) {
        until[b] += std::max(0.0, to[b] - levels[a]);
      }
    }
  }
}

}  // namespace

RailShare::RailShare(const ClusterShape& shape, int gpus_per_nic)
    : pxn_(shape, gpus_per_nic),
      nodes_(shape.nodes()),
      per_nic_(gpus_per_nic),
      rails_(pxn_.rails_per_node()),
      senders_(nodes_),
      levels_(nodes_),
      until_(nodes_),
      order_(nodes_ * per_nic_) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

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

void RailShare::gather(std::size_t rail) {
  flows_.resize(nodes_ * nodes_ * per_nic_);
  for (std::size_t a = 0; a < nodes_; ++a) {
    double* flows = &flows_[a * per_nic_ * nodes_];
    for (std::size_t b = 0; b < nodes_; ++b) {
      const double* to = &rows_[((a * nodes_ + b) * rails_ + rail) * per_nic_];
      for (std::size_t i = 0; i < per_nic_; ++i) {
        flows[i * nodes_ + b] = to[i];
      }
    }
    fill(senders_[a], flows);
  }
}

// Receivers are much alike hot for all senders, so that the order of the sender before is nearly this one's.
void RailShare::fill(Sender& sender, const double* flows) {
  const std::size_t width = nodes_ * per_nic_;
  sender.sizes.resize(width);
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t flow = order_[i];
    std::size_t at = i;
    for (; at > 0 && sender.sizes[at - 1] < flows[flow]; --at) {
      sender.sizes[at] = sender.sizes[at - 1];
      order_[at] = order_[at - 1];
    }
    sender.sizes[at] = flows[flow];
    order_[at] = flow;
  }
  while (!sender.sizes.empty() && sender.sizes.back() == 0) {
    sender.sizes.pop_back();
  }
  sender.rows = std::accumulate(sender.sizes.begin(), sender.sizes.end(), 0.0);
  sender.ends_at.resize(sender.sizes.size());
  sender.ended = 0;
  double smaller = sender.rows;
  for (std::size_t i = 0; i < sender.sizes.size(); ++i) {  // i larger flows have been served as much as this one
    smaller -= sender.sizes[i];
    sender.ends_at[i] = smaller + static_cast<double>(i + 1) * sender.sizes[i];
  }
}

// Up to what size a sender's flows have been served by a time; times are asked for from the last to the first.
double RailShare::level_at(Sender& sender, double time) {
  if (time >= sender.rows) {
    return std::numeric_limits<double>::infinity();
  }
  while (sender.ended < sender.ends_at.size() && sender.ends_at[sender.ended] > time) {
    ++sender.ended;
  }
  const auto alive = static_cast<double>(sender.ended);
  const bool all_alive = sender.ended == sender.ends_at.size();
  const double level = all_alive ? 0.0 : sender.sizes[sender.ended];
  return level + (time - (all_alive ? 0.0 : sender.ends_at[sender.ended])) / alive;
}

void RailShare::wait_on(std::size_t rail, double max_rows, FairShare::Wait& out) {
  const auto last = std::max_element(senders_.begin(), senders_.end(),
                                     [](const Sender& a, const Sender& b) { return a.rows < b.rows; });
  for (std::size_t t = 0; t < std::min(kTimes, last->ends_at.size()); ++t) {
    const double time = last->ends_at[t];
    std::transform(senders_.begin(), senders_.end(), levels_.begin(),
                   [&](Sender& sender) { return level_at(sender, time); });
    std::fill(until_.begin(), until_.end(), time);
    add_left(flows_.data(), levels_.data(), nodes_, per_nic_, until_.data());
    const auto latest = std::max_element(until_.begin(), until_.end());
    if (*latest > max_rows && *latest > out.rows) {
      out = {*latest, static_cast<int>((latest - until_.begin()) * static_cast<std::ptrdiff_t>(rails_) +
                                       static_cast<std::ptrdiff_t>(rail))};
    }
  }
}

FairShare::Wait RailShare::longest(const TrafficMatrix& traffic, Direction direction, const std::vector<double>& sent,
                                   double max_rows) {
  FairShare::Wait out;
  bool filled = false;
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    if (!anybody_idles(sent, rail)) {
      continue;
    }
    if (!filled) {
      pxn_.node_rows(traffic, direction, rows_);
      filled = true;
    }
    gather(rail);
    wait_on(rail, max_rows, out);
  }
  return out;
}

}  // namespace epsim
