#include "models/network/fair_share.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace epsim {
namespace {

// Senders with less than this part of the largest one's rows have long ended when the last flows are served.
constexpr double kSmall = 1.0 / 16;
// Where all GPUs send, the least at least this part of the most, flows take hardly longer than the busiest link
// (tests/models/network_agreement_test.cpp).
constexpr double kAlike = 0.5;
// Senders that end within this part of the last one's time count as ending with it.
constexpr double kTogether = 0.75;
// Receivers of so many hottest GPUs are looked at.
constexpr std::size_t kHottest = 2;
// Levels are gone through in strides, and one by one about the best; where all senders end together, no further than so
// many strides that bring nothing longer.
constexpr std::size_t kStride = 4, kFine = 2;
constexpr std::size_t kFalling = 3;

}  // namespace

FairShare::FairShare(const ClusterShape& shape, int gpus_per_group)
    : gpus_(shape.gpus), per_node_(shape.gpus_per_node), per_group_(gpus_per_group) {}

// What every group sends, and whether a receiver can idle at all. A sender's flows to one NIC are per_group_ of those
// to all far GPUs, so as many senders as that leaves fill a receiver at once.
bool FairShare::anybody_idles(const TrafficMatrix& traffic) {
  sent_.resize(gpus_ / per_group_);
  double least = std::numeric_limits<double>::infinity();
  latest_ = 0;
  for (std::size_t k = 0; k < sent_.size(); ++k) {
    const auto own = traffic.inter_out.begin() + k * per_group_;
    sent_[k] = std::accumulate(own, own + per_group_, 0.0);
    latest_ = std::max(latest_, sent_[k]);
    least = std::min(least, sent_[k]);
  }
  filling_ = static_cast<std::size_t>(
      std::count_if(sent_.begin(), sent_.end(), [&](double rows) { return rows >= kTogether * latest_; }));
  return latest_ > 0 && least < kAlike * latest_ && filling_ * per_group_ < gpus_ - per_node_;
}

// Groups of a node that send as much are one sender. Where ranks share a NIC, its largest one stands for all.
void FairShare::find_senders(const TrafficMatrix& traffic) {
  active_ = last_ = 0;
  together_ = true;
  for (std::size_t k = 0; k < sent_.size(); ++k) {
    const std::size_t first = k * per_group_, node = first / per_node_;
    if (sent_[k] < kSmall * latest_) {
      continue;
    }
    if (active_ > 0 && senders_[active_ - 1].node == node && senders_[active_ - 1].end == sent_[k]) {
      senders_[active_ - 1].groups += 1;
      continue;
    }
    if (active_ == senders_.size()) {
      senders_.emplace_back();
    }
    Sender& sender = senders_[active_];
    sender.tokens = 0;
    for (std::size_t r = 0; r < used_; ++r) {
      double tokens = 0;
      for (std::size_t g = std::max(first, rows_[r].first); g < std::min(first + per_group_, rows_[r].last); ++g) {
        tokens += traffic.tokens[g];
      }
      if (tokens > sender.tokens) {
        sender.tokens = tokens;
        sender.row = r;
      }
    }
    sender.node = node;
    sender.groups = 1;
    sender.end = sent_[k];
    together_ = together_ && sender.end >= kTogether * latest_;
    last_ = sender.end > senders_[last_].end ? active_ : last_;
    ++active_;
  }
}

void FairShare::copy_rows(const TrafficMatrix& traffic) {
  used_ = 0;
  for (const TrafficMatrix::Mix& mix : traffic.mixes()) {
    for (const TrafficMatrix::Row& row : mix.rows) {
      rows_.resize(std::max(rows_.size(), ++used_));
      Row& copy = rows_[used_ - 1];
      copy.first = row.first;
      copy.last = row.last;
      TrafficMatrix::reach(mix, row, copy.reach);
    }
  }
}

void FairShare::sort_hottest(Row& row) {
  const std::vector<std::int64_t>& ranks = order_.ranks({row.reach.data(), gpus_});
  row.hottest.resize(levels_);
  for (std::size_t g = 0; g < gpus_; ++g) {
    if (const auto rank = static_cast<std::size_t>(ranks[g]); rank < levels_) {
      row.hottest[rank] = {row.reach[g], g, g / per_node_};
    }
  }
}

// When all flows of a sender have been served up to a level: its end, less what is above that level.
void FairShare::walk(Sender& sender) const {
  const std::vector<HotGpu>& hottest = rows_[sender.row].hottest;
  sender.ends_at.resize(levels_);
  sender.per_row.resize(levels_);
  double above = 0, alive = 0;
  for (std::size_t i = 0; i < levels_; ++i) {
    above += i == 0 ? 0.0 : alive * (hottest[i - 1].level - hottest[i].level);
    sender.ends_at[i] = sender.end - sender.tokens * above;
    sender.per_row[i] = 1 / (sender.tokens * std::max(1.0, alive));
    alive += hottest[i].node != sender.node ? 1.0 : 0.0;
  }
}

// Rows that a receiver is still to get at a time from those that it hears: what its flows lack above the level that
// each sender has served up to. The level's place only rises from one time to an earlier one.
double FairShare::left_at(std::size_t receiver, double time) {
  double left = 0;
  for (std::size_t i = 0; i < heard_.size(); ++i) {
    const Sender& sender = senders_[heard_[i]];
    if (sender.end <= time) {
      continue;
    }
    const double* ends_at = sender.ends_at.data();
    std::size_t at = at_[i];
    while (at + 1 < levels_ && ends_at[at] > time) {
      ++at;
    }
    at_[i] = at;
    const double level = rows_[sender.row].hottest[at].level + (time - ends_at[at]) * sender.per_row[at];
    const double* reach = rows_[sender.row].reach.data() + receiver * per_group_;
    double of_token = 0;
    for (std::size_t g = 0; g < per_group_; ++g) {
      of_token += std::max(0.0, reach[g] - level);
    }
    left += sender.groups * sender.tokens * of_token;
  }
  return left;
}

// Levels from `first` on, `stride` apart: the one with the largest sum of its time and what is left then.
FairShare::Worst FairShare::worst_of(std::size_t receiver, Levels levels) {
  at_.assign(heard_.size(), 0);
  Worst out;
  std::size_t falling = 0;
  for (std::size_t i = levels.first; i < levels.end && falling < levels.patience; i += levels.stride) {
    const double time = senders_[last_].ends_at[i];
    const double until = time + left_at(receiver, time);
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
double FairShare::waits_for(std::size_t receiver) {
  heard_.clear();
  for (std::size_t s = 0; s < active_; ++s) {
    if (senders_[s].node != receiver * per_group_ / per_node_) {
      heard_.push_back(s);
    }
  }
  const std::size_t patience = together_ ? kFalling : levels_;
  const Worst coarse = worst_of(receiver, {0, levels_, kStride, patience});
  const std::size_t first = coarse.level < kFine ? 0 : coarse.level - kFine;
  const Worst fine = worst_of(receiver, {first, std::min(levels_, coarse.level + kFine + 1), 1, levels_});
  return std::max(coarse.rows, fine.rows);
}

// Not twice, and not where a hotter receiver that hears all senders gets more on each of its GPUs.
bool FairShare::worth_trying(std::size_t hot) {
  const std::size_t receiver = hot / per_group_, first = receiver * per_group_;
  if (std::find(tried_.begin(), tried_.end(), receiver) != tried_.end()) {
    return false;
  }
  tried_.push_back(receiver);
  if (used_ > 1) {
    return true;
  }
  double max = 0, min = std::numeric_limits<double>::infinity();  // of its other GPUs
  for (std::size_t g = first; g < first + per_group_; ++g) {
    const double here = rows_.front().reach[g];
    max = g == hot ? max : std::max(max, here);
    min = g == hot ? min : std::min(min, here);
  }
  const bool covered = max <= covered_;
  const bool hears_all = std::none_of(senders_.begin(), senders_.begin() + active_,
                                      [&](const Sender& s) { return s.node == first / per_node_; });
  covered_ = hears_all ? std::max(covered_, min) : covered_;
  return !covered;
}

FairShare::Wait FairShare::longest(const TrafficMatrix& traffic, double max_rows) {
  Wait out;
  if (traffic.mixes().empty() || !anybody_idles(traffic)) {
    return out;
  }
  copy_rows(traffic);
  find_senders(traffic);
  levels_ = together_ ? std::min(gpus_, filling_ * per_group_ + per_node_ + 1) : gpus_;
  for (std::size_t r = 0; r < used_; ++r) {
    sort_hottest(rows_[r]);
  }
  for (std::size_t s = 0; s < active_; ++s) {
    walk(senders_[s]);
  }
  tried_.clear();
  covered_ = -1;
  const std::vector<HotGpu>& hottest = rows_[senders_[last_].row].hottest;
  for (std::size_t i = 0; i < std::min(levels_, kHottest); ++i) {
    const std::size_t receiver = hottest[i].gpu / per_group_;
    if (!worth_trying(hottest[i].gpu)) {
      continue;
    }
    const double rows = waits_for(receiver);
    if (rows > max_rows && rows > out.rows) {
      out = {rows, static_cast<int>(receiver)};
    }
  }
  return out;
}

}  // namespace epsim
