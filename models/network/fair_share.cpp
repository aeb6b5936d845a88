#include "models/network/fair_share.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>

namespace epsim {
namespace {

// Senders with less than this part of the largest one's rows have long ended when the last flows are served.
constexpr double kSmall = 1.0 / 16;
// Senders that end within this part of the last one's time count as ending with it.
constexpr double kTogether = 0.75;
// Receivers of so many hottest GPUs are looked at.
constexpr std::size_t kHottest = 4;
// Levels are gone through in strides, and one by one about the best; where all senders end together, no further than so
// many strides that bring nothing longer.
constexpr std::size_t kStride = 3;
constexpr std::size_t kFalling = 4;

}  // namespace

FairShare::FairShare(const ClusterShape& shape, int gpus_per_group)
    : gpus_(static_cast<std::size_t>(shape.gpus)),
      per_node_(static_cast<std::size_t>(shape.gpus_per_node)),
      per_group_(static_cast<std::size_t>(gpus_per_group)) {}

// Groups of a node with as many tokens are one sender.
void FairShare::find_senders(const LayerTraffic& traffic) {
  active_ = 0;
  double latest = 0;
  for (std::size_t s = 0; s < traffic.spread.size(); ++s) {
    const TokenSpread& spread = traffic.spread[s];
    const double everywhere = std::accumulate(spread.reach.begin(), spread.reach.end(), 0.0);
    for (std::size_t first = 0; first < gpus_; first += per_node_) {
      const auto near = spread.reach.begin() + static_cast<std::ptrdiff_t>(first);
      const double far = everywhere - std::accumulate(near, near + static_cast<std::ptrdiff_t>(per_node_), 0.0);
      const std::size_t of_node = active_;
      for (std::size_t g = first; g < first + per_node_; g += per_group_) {
        const auto own = spread.tokens.begin() + static_cast<std::ptrdiff_t>(g);
        const double tokens = std::accumulate(own, own + static_cast<std::ptrdiff_t>(per_group_), 0.0);
        if (tokens <= 0) {
          continue;
        }
        if (active_ > of_node && senders_[active_ - 1].tokens == tokens) {
          senders_[active_ - 1].groups += 1;
          continue;
        }
        if (active_ == senders_.size()) {
          senders_.emplace_back();
        }
        Sender& sender = senders_[active_++];
        sender.spread = s;
        sender.node = first / per_node_;
        sender.tokens = tokens;
        sender.groups = 1;
        sender.end = tokens * far;
        latest = std::max(latest, sender.end);
      }
    }
  }
  const auto large = std::partition(senders_.begin(), senders_.begin() + static_cast<std::ptrdiff_t>(active_),
                                    [&](const Sender& s) { return s.end >= kSmall * latest; });
  active_ = static_cast<std::size_t>(large - senders_.begin());
  const auto last =
      std::max_element(senders_.begin(), large, [](const Sender& a, const Sender& b) { return a.end < b.end; });
  if (last != large) {
    std::iter_swap(senders_.begin(), last);
  }
}

// By whole numbers, which sort in half the time: a float's bits, which grow with it, and the GPU below them.
void FairShare::sort_hottest(const LayerTraffic& traffic) {
  hottest_.resize(std::max(hottest_.size(), traffic.spread.size()));
  keys_.resize(gpus_);
  for (std::size_t s = 0; s < traffic.spread.size(); ++s) {
    const std::vector<double>& reach = traffic.spread[s].reach;
    for (std::size_t g = 0; g < gpus_; ++g) {
      keys_[g] = std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(reach[g]))} << 32U | (gpus_ - g);
    }
    const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(levels_);
    std::nth_element(keys_.begin(), end - 1, keys_.end(), std::greater<>());
    std::sort(keys_.begin(), end, std::greater<>());
    hottest_[s].resize(levels_);
    for (std::size_t i = 0; i < levels_; ++i) {
      const std::size_t gpu = gpus_ - (keys_[i] & 0xFFFFFFFFU);
      hottest_[s][i] = {reach[gpu], gpu};
    }
  }
}

// When all flows of a sender have been served up to a level: its end, less what is above that level.
void FairShare::walk(Sender& sender) const {
  const std::vector<HotGpu>& hottest = hottest_[sender.spread];
  sender.ends_at.resize(levels_);
  sender.alive.resize(levels_);
  double above = 0, alive = 0;
  for (std::size_t i = 0; i < levels_; ++i) {
    above += i == 0 ? 0.0 : alive * (hottest[i - 1].level - hottest[i].level);
    sender.ends_at[i] = sender.end - sender.tokens * above;
    sender.alive[i] = alive;
    alive += hottest[i].gpu / per_node_ != sender.node ? 1.0 : 0.0;
  }
}

// The level up to which its flows are served at a time before its end. `at` only rises from one time to an earlier one.
double FairShare::served_at(const Sender& sender, double time, std::size_t& at) const {
  while (at + 1 < levels_ && sender.ends_at[at] > time) {
    ++at;
  }
  const double late = sender.tokens * std::max(1.0, sender.alive[at]);
  return hottest_[sender.spread][at].level + (time - sender.ends_at[at]) / late;
}

// Rows that a receiver is still to get at a time from those that it hears.
double FairShare::left_at(const LayerTraffic& traffic, std::size_t receiver, double time) {
  const std::size_t first = receiver * per_group_;
  double left = 0;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    const Sender& sender = senders_[heard_[i]];
    if (sender.end <= time) {
      continue;
    }
    const double level = served_at(sender, time, at_[i]);
    const double* reach = traffic.spread[sender.spread].reach.data() + first;
    double of_token = 0;
    for (std::size_t g = 0; g < per_group_; ++g) {
      of_token += std::max(0.0, reach[g] - level);
    }
    left += sender.groups * sender.tokens * of_token;
  }
  return left;
}

// Levels from `first` on, `stride` apart: the one with the largest sum of its time and what is left then.
FairShare::Worst FairShare::worst_of(const LayerTraffic& traffic, std::size_t receiver, Levels levels) {
  at_.assign(heard_.size(), 0);
  Worst out;
  std::size_t falling = 0;
  for (std::size_t i = levels.first; i < levels.end && falling < levels.patience; i += levels.stride) {
    const double time = senders_.front().ends_at[i];
    const double until = time + left_at(traffic, receiver, time);
    if (until > out.rows) {
      out = {i, until};
      falling = 0;
    } else {
      ++falling;
    }
  }
  return out;
}

// From the end back the sum grows as long as less comes in than the receiver takes; the second of its GPUs may bring it
// up once more.
double FairShare::waits_for(const LayerTraffic& traffic, std::size_t receiver) {
  heard_.clear();
  for (std::size_t s = 0; s < active_; ++s) {
    if (senders_[s].node != receiver * per_group_ / per_node_) {
      heard_.push_back(s);
    }
  }
  const std::size_t patience = together_ ? kFalling : levels_;
  const Worst coarse = worst_of(traffic, receiver, {0, levels_, kStride, patience});
  const std::size_t first = coarse.level < kStride ? 0 : coarse.level - kStride + 1;
  const Worst fine = worst_of(traffic, receiver, {first, std::min(levels_, coarse.level + kStride), 1, levels_});
  return std::max(coarse.rows, fine.rows);
}

// Not twice, and not where a hotter receiver that hears all senders gets more on each of its GPUs.
bool FairShare::worth_trying(const LayerTraffic& traffic, std::size_t hot) {
  const std::size_t receiver = hot / per_group_, first = receiver * per_group_;
  if (std::find(tried_.begin(), tried_.end(), receiver) != tried_.end()) {
    return false;
  }
  tried_.push_back(receiver);
  if (traffic.spread.size() > 1) {
    return true;
  }
  double most = 0, least = std::numeric_limits<double>::infinity();  // of its other GPUs
  for (std::size_t g = first; g < first + per_group_; ++g) {
    const double here = traffic.spread.front().reach[g];
    most = g == hot ? most : std::max(most, here);
    least = g == hot ? least : std::min(least, here);
  }
  const bool covered = most <= covered_;
  const bool hears_all = std::none_of(senders_.begin(), senders_.begin() + static_cast<std::ptrdiff_t>(active_),
                                      [&](const Sender& s) { return s.node == first / per_node_; });
  covered_ = hears_all ? std::max(covered_, least) : covered_;
  return !covered;
}

FairShare::Wait FairShare::longest(const LayerTraffic& traffic, double most) {
  Wait out;
  if (traffic.spread.empty()) {
    return out;
  }
  find_senders(traffic);
  // NIC groups that send for long, and the first of all to be done.
  double groups = 0, first_end = senders_.empty() ? 0.0 : senders_.front().end;
  for (std::size_t s = 0; s < active_; ++s) {
    groups += senders_[s].end >= kTogether * senders_.front().end ? senders_[s].groups : 0.0;
    first_end = std::min(first_end, senders_[s].end);
  }
  // A sender's flows to one NIC are per_group_ of those to all far GPUs: as many senders fill a receiver at once.
  const std::size_t far = gpus_ - per_node_, full = static_cast<std::size_t>(groups) * per_group_;
  if (active_ == 0 || full >= far) {
    return out;
  }
  together_ = first_end >= kTogether * senders_.front().end;
  levels_ = together_ ? std::min(gpus_, full + per_node_ + 1) : gpus_;
  sort_hottest(traffic);
  for (std::size_t s = 0; s < active_; ++s) {
    walk(senders_[s]);
  }
  tried_.clear();
  covered_ = -1;
  const std::vector<HotGpu>& hottest = hottest_[senders_.front().spread];
  for (std::size_t i = 0; i < std::min(levels_, kHottest); ++i) {
    const std::size_t receiver = hottest[i].gpu / per_group_;
    if (!worth_trying(traffic, hottest[i].gpu)) {
      continue;
    }
    const double rows = waits_for(traffic, receiver);
    if (rows > most && rows > out.rows) {
      out = {rows, static_cast<int>(receiver)};
    }
  }
  return out;
}

}  // namespace epsim
