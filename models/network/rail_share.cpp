#include "models/network/rail_share.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace epsim {
namespace {

constexpr std::size_t kTimes = 32;
// As FairShare's: where all NICs of a rail send, the least at least this part of the most, nobody idles for long; and
// senders that end within this part of the last one's time count as ending with it.
constexpr double kAllSend = 0.5;
constexpr double kWithLast = 0.75;

}  // namespace

RailShare::RailShare(const ClusterShape& shape, int gpus_per_nic)
    : pxn_(shape, gpus_per_nic),
      nodes_(shape.nodes()),
      per_nic_(gpus_per_nic),
      rails_(pxn_.rails_per_node()),
      senders_(nodes_),
      levels_(nodes_) {}

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

void RailShare::fill_senders(std::size_t rail) {
  for (std::size_t a = 0; a < nodes_; ++a) {
    Sender& sender = senders_[a];
    sender.sizes.clear();
    for (std::size_t b = 0; b < nodes_; ++b) {
      const double* to = flows(a, b, rail);
      std::copy_if(to, to + per_nic_, std::back_inserter(sender.sizes), [](double rows) { return rows > 0; });
    }
    std::sort(sender.sizes.begin(), sender.sizes.end(), std::greater<>());
    sender.rows = std::accumulate(sender.sizes.begin(), sender.sizes.end(), 0.0);
    sender.ends_at.resize(sender.sizes.size());
    double smaller = sender.rows;
    for (std::size_t i = 0; i < sender.sizes.size(); ++i) {  // i larger flows have been served as much as this one
      smaller -= sender.sizes[i];
      sender.ends_at[i] = smaller + static_cast<double>(i + 1) * sender.sizes[i];
    }
  }
}

// Up to what size a sender's flows have been served by a time.
double RailShare::level_at(const Sender& sender, double time) const {
  if (time >= sender.rows) {
    return std::numeric_limits<double>::infinity();
  }
  // The first of the flows, by falling size, that have all ended.
  const auto ended =
      std::partition_point(sender.ends_at.begin(), sender.ends_at.end(), [&](double end) { return end > time; });
  const auto alive = static_cast<double>(ended - sender.ends_at.begin());
  const bool all_alive = ended == sender.ends_at.end();
  const double level = all_alive ? 0.0 : sender.sizes[ended - sender.ends_at.begin()];
  return level + (time - (all_alive ? 0.0 : *ended)) / alive;
}

void RailShare::wait_on(std::size_t rail, double max_rows, FairShare::Wait& out) {
  const auto last = std::max_element(senders_.begin(), senders_.end(),
                                     [](const Sender& a, const Sender& b) { return a.rows < b.rows; });
  for (std::size_t t = 0; t < std::min(kTimes, last->ends_at.size()); ++t) {
    const double time = last->ends_at[t];
    std::transform(senders_.begin(), senders_.end(), levels_.begin(),
                   [&](const Sender& sender) { return level_at(sender, time); });
    for (std::size_t b = 0; b < nodes_; ++b) {
      double until = time;
      for (std::size_t a = 0; a < nodes_; ++a) {
        const double* to = flows(a, b, rail);
        for (std::size_t i = 0; i < per_nic_; ++i) {
          until += std::max(0.0, to[i] - levels_[a]);
        }
      }
      if (until > max_rows && until > out.rows) {
        out = {until, static_cast<int>(b * rails_ + rail)};
      }
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
      pxn_.node_rows(traffic, direction, flows_);
      filled = true;
    }
    fill_senders(rail);
    wait_on(rail, max_rows, out);
  }
  return out;
}

}  // namespace epsim
