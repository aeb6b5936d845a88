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
// The sums of a sender's flows in two orders differ by less than this part.
constexpr double kRounding = 1e-9;

// Adds to `until` [receiving node] what flows, as in RailShare, lack above their sender's level.
EPSIM_SIMD void add_left(const double* __restrict flows, const std::vector<double>& levels, std::size_t width,
                         std::size_t per_nic, double* __restrict until) {
  for (std::size_t a = 0; a < levels.size(); ++a) {
    const double level = levels[a];
    for (std::size_t i = 0; i < per_nic && level < std::numeric_limits<double>::infinity(); ++i) {
      const double* to = flows + (a * per_nic + i) * width;
      for (std::size_t b = 0; b < width; ++b) {
        until[b] += std::max(0.0, to[b] - level);
      }
    }
  }
}

}  // namespace

RailShare::RailShare(const ClusterShape& shape, int gpus_per_nic)
    : pxn_(shape, gpus_per_nic), nodes_(shape.nodes()), per_nic_(gpus_per_nic), rails_(pxn_.rails_per_node()) {}

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

// Rails where a receiver may idle, and what their last senders send: no other is looked at yet.
void RailShare::find_rails(const PortRows& ports) {
  idle_rails_.clear();
  after_.clear();
  for (std::size_t rail = 0; rail < rails_; ++rail) {
    if (anybody_idles(ports.inter_out, rail)) {
      double most = 0;
      for (std::size_t node = 0; node < nodes_; ++node) {
        most = std::max(most, ports.inter_out[(node * rails_ + rail) * per_nic_]);
      }
      idle_rails_.push_back(rail);
      after_.push_back(most);
    }
  }
}

// The nodes that send as long as after_ says on any of the rails.
void RailShare::choose(const std::vector<double>& sent) {
  senders_at_.clear();
  for (std::size_t node = 0; node < nodes_; ++node) {
    for (std::size_t r = 0; r < idle_rails_.size(); ++r) {
      if (sent[(node * rails_ + idle_rails_[r]) * per_nic_] >= after_[r] * (1.0 - kRounding)) {
        senders_at_.push_back(static_cast<int>(node));
        break;
      }
    }
  }
}

void RailShare::gather(std::size_t rail, const std::vector<double>& received) {
  const std::size_t gpus = received.size();
  places_.clear();
  to_.clear();
  for (std::size_t node = 0; node < nodes_; ++node) {
    for (std::size_t i = 0; i < per_nic_; ++i) {
      if (const std::size_t gpu = (node * rails_ + rail) * per_nic_ + i; received[gpu] > 0) {
        if (to_.empty() || to_.back() != static_cast<int>(node)) {
          to_.push_back(static_cast<int>(node));
        }
        places_.push_back({gpu, i, to_.size() - 1});
      }
    }
  }
  const std::size_t width = to_.size();
  flows_.assign(senders_at_.size() * per_nic_ * width, 0.0);
  order_.resize(per_nic_ * width);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  senders_.resize(senders_at_.size());
  for (std::size_t a = 0; a < senders_.size(); ++a) {
    double* flows = flows_.data() + a * per_nic_ * width;
    for (const Place& place : places_) {
      flows[place.of_nic * width + place.node] = rows_[a * gpus + place.gpu];
    }
    if (a == 0) {
      std::sort(order_.begin(), order_.end(), [&](std::size_t x, std::size_t y) { return flows[x] > flows[y]; });
    }
    fill(senders_[a], flows);
  }
}

// Receivers are much alike hot for all senders, so that the order of the sender before is nearly this one's.
void RailShare::fill(Sender& sender, const double* flows) {
  sender.sizes.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) {
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

const RailShare::Sender& RailShare::last() const {
  return *std::max_element(senders_.begin(), senders_.end(),
                           [](const Sender& a, const Sender& b) { return a.rows < b.rows; });
}

// The first of the times that wait_on() looks at.
double RailShare::earliest_time() const {
  const std::vector<double>& ends = last().ends_at;
  return ends.empty() ? 0.0 : ends[std::min(kTimes, ends.size()) - 1];
}

void RailShare::wait_on(std::size_t rail, double max_rows, FairShare::Wait& out) {
  const std::vector<double> ends_at = last().ends_at;
  levels_.resize(senders_.size());
  for (std::size_t t = 0; t < std::min(kTimes, ends_at.size()); ++t) {
    const double time = ends_at[t];
    std::transform(senders_.begin(), senders_.end(), levels_.begin(),
                   [&](Sender& sender) { return level_at(sender, time); });
    until_.assign(to_.size(), time);
    add_left(flows_.data(), levels_, to_.size(), per_nic_, until_.data());
    const auto latest = std::max_element(until_.begin(), until_.end());
    if (*latest > max_rows && *latest > out.rows) {
      out = {*latest, to_[latest - until_.begin()] * static_cast<int>(rails_) + static_cast<int>(rail)};
    }
  }
}

// First with the last senders alone, which say from when on the others count.
FairShare::Wait RailShare::longest(const TrafficMatrix& traffic, Direction direction, const PortRows& ports,
                                   double max_rows) {
  FairShare::Wait out;
  find_rails(ports);
  if (idle_rails_.empty()) {
    return out;
  }
  choose(ports.inter_out);
  pxn_.node_rows(traffic, direction, senders_at_, rows_);
  for (std::size_t r = 0; r < idle_rails_.size(); ++r) {
    gather(idle_rails_[r], ports.inter_in);
    after_[r] = earliest_time();
  }
  choose(ports.inter_out);
  pxn_.node_rows(traffic, direction, senders_at_, rows_);
  for (const std::size_t rail : idle_rails_) {
    gather(rail, ports.inter_in);
    wait_on(rail, max_rows, out);
  }
  return out;
}

}  // namespace epsim
