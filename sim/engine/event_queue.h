// Pending events in the order in which they happen: time, then phase, then insertion.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/units.h"

namespace epsim {

// What happens first among events of one instant.
enum class Phase : std::uint8_t {
  Complete,   // first: a finished step frees the KV blocks and the seats that the phases below count
  Arrive,     // before Schedule: a request that comes at the very instant a step is put together can still join it
  Rebalance,  // after Complete: no step is in flight; before Schedule: the next step runs on the new placement
  Schedule,   // sees all that this instant frees, brings and moves
  Sample      // last: a measurement sees the settled state
};
inline constexpr std::size_t kPhases = 5;

struct EventKey {
  Ticks at{};
  Phase phase = Phase::Complete;
  std::uint64_t sequence = 0;  // number of events that were pushed before
  friend constexpr auto operator<=>(const EventKey&, const EventKey&) = default;
};

// A priority queue for clocks that only move forward: nothing may be pushed before the event popped last.
//
// Multi-level buckets (Denardo and Fox, "Shortest-route methods: reaching, pruning, and buckets", 1979), exact to the
// picosecond. Times are read as eight digits of eight bits and compared with a reference time that no pending event
// precedes; an event lies in the bucket named by the highest digit in which it differs, and by that digit's value. The
// first bucket that is not empty therefore holds the earliest events. When it holds several, its earliest time becomes
// the reference, which moves the others at least one level down. So an event is moved at most eight times, whatever the
// times are, and no event is compared with those of other buckets.
//
// Buckets are linked lists in insertion order, and moving a bucket keeps that order. Events at the reference time
// itself wait in one list for each phase, so that any number of equal times costs no comparison.
template <class Event>
class EventQueue {
 public:
  struct Entry {
    EventKey key;
    Event event;
  };

  EventQueue() : links_(kBuckets) {
    for (Link b = 0; b < kBuckets; ++b) {
      last_[b] = b;
    }
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Time of the event popped last; 0 before the first.
  Ticks now() const { return Ticks{now_}; }

  // Throws InvariantBroken when `at` lies in the past.
  void push(Ticks at, Phase phase, Event event) {
    EPSIM_CHECK(at.count() >= now_, "an event cannot be scheduled in the past");
    const std::uint64_t order = (static_cast<std::uint64_t>(phase) << kSequenceBits) | pushed_++;
    const Link link = store({at.count(), order, std::move(event)});
    place(link, at.count(), order);
    ++size_;
  }

  // Takes the first event out and moves the clock to it.
  Entry pop() {
    EPSIM_CHECK(size_ > 0, "an empty queue has no event");
    --size_;
    const Link link = current_phases_ != 0 ? pop_current() : pop_bucket();
    links_[link] = free_;
    free_ = link;
    now_ = at_link(link).at;
    return entry_of(std::move(at_link(link)));
  }

 private:
  // Links number list ends and events alike: 0 .. kBuckets - 1 are the buckets, each linked to its first event, the
  // rest are events. A bucket that is its own last link is empty.
  using Link = std::uint32_t;
  static constexpr unsigned kDigitBits = 8;
  static constexpr unsigned kLevels = 8;
  static constexpr Link kCurrent = kLevels << kDigitBits;  // the lists of the reference time, by phase
  static constexpr Link kBuckets = kCurrent + kPhases;
  static constexpr Link kNone = 0;               // a bucket, so never the link of an event
  static constexpr unsigned kSequenceBits = 61;  // leaves 3 bits for the phase; 2^61 events are never reached

  struct Item {
    std::int64_t at;      // picoseconds
    std::uint64_t order;  // phase, then sequence: comparing it compares both
    Event event;
  };

  // Time and order as one number, which compares without a branch.
  __extension__ using WideKey = unsigned __int128;
  static WideKey wide_key(const Item& item) {
    return (static_cast<WideKey>(static_cast<std::uint64_t>(item.at)) << 64) | item.order;
  }

  static Entry entry_of(Item item) {
    constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kSequenceBits) - 1;
    const EventKey key{Ticks{item.at}, static_cast<Phase>(item.order >> kSequenceBits), item.order & kSequenceMask};
    return {key, std::move(item.event)};
  }

  Item& at_link(Link link) { return items_[link - kBuckets]; }
  const Item& at_link(Link link) const { return items_[link - kBuckets]; }

  Link store(Item&& item) {
    if (free_ != kNone) {
      const Link link = free_;
      free_ = links_[link];
      at_link(link) = std::move(item);
      return link;
    }
    EPSIM_CHECK(links_.size() < std::numeric_limits<Link>::max(), "more pending events than links can number");
    items_.push_back(std::move(item));
    links_.push_back(kNone);
    return static_cast<Link>(links_.size() - 1);
  }

  void append(Link bucket, Link link) {
    links_[last_[bucket]] = link;
    last_[bucket] = link;
  }

  void place(Link link, std::int64_t at, std::uint64_t order) {
    const auto difference = static_cast<std::uint64_t>(at ^ reference_);
    if (difference == 0) {
      const auto phase = static_cast<unsigned>(order >> kSequenceBits);
      append(kCurrent + phase, link);
      current_phases_ |= 1U << phase;
      return;
    }
    const unsigned level = (63U - static_cast<unsigned>(std::countl_zero(difference))) / kDigitBits;
    const auto digit = static_cast<Link>(at >> (level * kDigitBits)) & ((1U << kDigitBits) - 1U);
    const Link bucket = (level << kDigitBits) | digit;
    append(bucket, link);
    filled_[bucket / 64] |= std::uint64_t{1} << (bucket % 64);
    filled_words_ |= 1U << (bucket / 64);
  }

  Link current_list() const { return kCurrent + static_cast<unsigned>(std::countr_zero(current_phases_)); }

  Link first_bucket() const {
    const auto word = static_cast<unsigned>(std::countr_zero(filled_words_));
    return word * 64 + static_cast<unsigned>(std::countr_zero(filled_[word]));
  }

  void forget(Link bucket) {
    last_[bucket] = bucket;
    const Link word = bucket / 64;
    filled_[word] &= ~(std::uint64_t{1} << (bucket % 64));
    filled_words_ &= ~(static_cast<std::uint32_t>(filled_[word] == 0) << word % 32U);  // as the hardware shifts
  }

  // The link before the first event of a bucket that is not empty.
  Link earliest_in(Link bucket) const {
    const Link last = last_[bucket];
    Link before = bucket, link = links_[bucket];
    WideKey best = wide_key(at_link(link));
    while (link != last) {
      const Link next = links_[link];
      const WideKey key = wide_key(at_link(next));
      const bool earlier = key < best;
      before = earlier ? link : before;
      best = earlier ? key : best;
      link = next;
    }
    return before;
  }

  Link pop_current() {
    const Link list = current_list();
    const Link link = links_[list];
    links_[list] = links_[link];
    if (last_[list] == link) {
      last_[list] = list;
      current_phases_ &= current_phases_ - 1;
    }
    return link;
  }

  Link pop_bucket() {
    const Link bucket = first_bucket();
    const Link last = last_[bucket];
    if (links_[bucket] == last) {  // alone: the reference may stay
      forget(bucket);
      return last;
    }
    const Link before = earliest_in(bucket);
    const Link popped = links_[before];
    links_[before] = links_[popped];
    reference_ = at_link(popped).at;
    forget(bucket);
    move_list(links_[bucket], popped == last ? before : last);
    return popped;
  }

  void move_list(Link link, Link last) {
    for (;;) {
      const Link next = links_[link];
      place(link, at_link(link).at, at_link(link).order);
      if (link == last) {
        return;
      }
      link = next;
    }
  }

  std::vector<Item> items_;  // [link - kBuckets]
  std::vector<Link> links_;  // [link] the next one in its list
  std::array<Link, kBuckets> last_{};
  std::array<std::uint64_t, kCurrent / 64> filled_{};  // one bit a bucket
  std::uint32_t filled_words_ = 0;                     // one bit a word of filled_
  std::uint32_t current_phases_ = 0;                   // one bit a list of the reference time
  Link free_ = kNone;                                  // links of popped events, to be used again
  std::size_t size_ = 0;
  std::int64_t now_ = 0, reference_ = 0;  // picoseconds; no pending event precedes the reference
  std::uint64_t pushed_ = 0;
};

}  // namespace epsim
