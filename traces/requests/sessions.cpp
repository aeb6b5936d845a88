// Conversations: sessions start by a Poisson process and have a geometric number of turns. The next turn comes
// `think_time` (exponential, this mean; it includes the time of the answer) after the one before, and in a run not before that has
// ended. Its input is all that
// went before (inputs and answers) and the new tokens that the lengths draw; prefix blocks, of answers too, say what is shared. The trace
// starts with no session open; RequestTrace::ramp counts the requests before the number of open sessions is steady.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "traces/requests/arrivals.h"
#include "traces/requests/lengths.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"

namespace epsim {

namespace {

// The number of open conversations is steady after so many mean lifetimes (turns x think_time): exp(-4) = 2 % are missing.
constexpr double kLifetimes = 4;
constexpr std::uint64_t kHopeless = 1000;  // conversations without a turn
// Bounds on the conversations whose turns are counted, and on those turns.
constexpr std::uint64_t kCounted = 200'000;
constexpr std::int64_t kCountedTurns = 2'000'000;

struct SessionPlan {
  double session_rate, turns, think_s;
  std::int64_t system_tokens, max_context;
  int block_tokens;
};

constexpr KeyTable kSessionKeys =
    KeyTable({
        {"session_rate", key::request_rate(kRateRange), key::kRequired, "Rate of new conversations."},
        {"turns", key::number(Range::between(1, 1e4)), key::kRequired, "Mean number of turns of a conversation."},
        {"think_time", key::time(Bound::kPositive), key::kRequired,
         "Mean time from one turn's arrival to the next's, the answer's time included; a turn waits for that answer."},
        {"system_tokens", key::whole(), key::is(0), "Tokens of a system prompt that all conversations share."},
        {"max_context", key::whole(Bound::kPositive), key::kRequired,
         "A conversation ends before it exceeds this many tokens."},
        {"block_tokens", key::whole(Bound::kPositive), key::is(64), "Tokens per prefix block."},
    }) +
    kExtentKeys + kLengthKeys;

SessionPlan read_plan(ConfigReader& in) {
  SessionPlan p{};
  p.session_rate = in.read<RequestsPerSecond>(kSessionKeys["session_rate"]).count();
  p.turns = in.read<double>(kSessionKeys["turns"]);
  p.think_s = in.read<Seconds>(kSessionKeys["think_time"]).count();
  in.check(p.think_s <= 9e6, "think_time", "this is longer than a run can be.");
  p.system_tokens = in.read<int>(kSessionKeys["system_tokens"]);
  p.max_context = in.read<int>(kSessionKeys["max_context"]);
  in.check(p.system_tokens < p.max_context, "system_tokens", "this must be below max_context.");
  p.block_tokens = in.read<int>(kSessionKeys["block_tokens"]);
  return p;
}

// A conversation between two of its turns.
struct Session {
  Ticks next{};              // when its next turn arrives
  std::uint64_t number = 0;  // order of equal instants, and the name of its random stream
  std::int64_t turns_left = 0;
  std::int64_t context = 0;          // tokens so far, answers included
  std::vector<std::int64_t> blocks;  // ids of the blocks that the context fills
  RandomStream random;
  std::int32_t last_turn = -1;  // position among the requests
};

struct Later {
  bool operator()(const Session& a, const Session& b) const {
    return a.next != b.next ? a.next > b.next : a.number > b.number;
  }
};

class SessionArrivals {
 public:
  SessionArrivals(const SessionPlan& plan, const LengthSampler& lengths, Seed seed)
      : plan_(plan), lengths_(lengths), seed_(seed), starts_(seed, "requests.arrivals") {
    table_.prefix_start.push_back(0);
    table_.block_tokens = plan.block_tokens;
    table_.answers = true;
    for (std::int64_t b = 0; b < plan.system_tokens / plan.block_tokens; ++b) {
      system_blocks_.push_back(next_block_++);
    }
    schedule_start();
  }

  RequestTable run(const Extent& extent, const ConfigReader& in) {
    while (extent.goes_on(table_.trace.requests.size(), std::min(next_start_, next_turn()))) {
      in.check(
          std::min(next_start_, next_turn()) < Ticks::max(), "count",
          fmt::format("only {} requests arrive in the 106 days that a run can be long.", table_.trace.requests.size()));
      // The bounds are those of every trace; sessions make more requests than the starts alone tell.
      in.check(static_cast<double>(table_.trace.requests.size()) < kMaxRequests, "duration",
               "the trace gets too many requests.");
      in.check(table_.prefix_blocks.size() < kMaxPrefixBlocks, "block_tokens",
               "the trace gets too many prefix blocks; make them larger.");
      if (next_start_ <= next_turn()) {
        start_session();
        schedule_start();
      } else {
        std::ranges::pop_heap(open_, Later());
        Session session = std::move(open_.back());
        open_.pop_back();
        take_turn(std::move(session));
      }
      in.check(sessions_ < kHopeless || !table_.trace.requests.empty(), "max_context",
               fmt::format("no first turn of {} conversations fits in {} tokens.", sessions_, plan_.max_context));
    }
    const Ticks steady = to_ticks(Seconds{std::min(9.2e6, kLifetimes * plan_.turns * plan_.think_s)});
    const std::vector<Request>& all = table_.trace.requests;
    table_.trace.ramp =
        static_cast<std::size_t>(std::ranges::lower_bound(all, steady, {}, &Request::arrival) - all.begin());
    return std::move(table_);
  }

 private:
  Ticks next_turn() const { return open_.empty() ? Ticks::max() : open_.front().next; }

  void schedule_start() {
    start_s_ += starts_.exponential(1.0 / plan_.session_rate);
    next_start_ = start_s_ < 9.2e6 ? to_ticks(Seconds{start_s_}) : Ticks::max();
  }

  void start_session() {
    Session s{next_start_,         sessions_,      0,
              plan_.system_tokens, system_blocks_, RandomStream(seed_, "requests.sessions", sessions_)};
    ++sessions_;
    s.turns_left = s.random.geometric(plan_.turns);
    take_turn(std::move(s));
  }

  // Emits the session's next turn and puts the session back unless it ends.
  void take_turn(Session s) {
    const RequestLengths n = lengths_.draw(s.random);
    const std::int64_t input = s.context + n.input_tokens;
    if (input + n.output_tokens > plan_.max_context) {
      return;
    }
    table_.trace.turn_before.push_back(s.last_turn);
    s.last_turn = static_cast<std::int32_t>(table_.trace.requests.size());
    table_.trace.requests.push_back({s.next, static_cast<std::int32_t>(input), n.output_tokens});
    s.context = input + n.output_tokens;
    fill_blocks(s);
    table_.prefix_blocks.insert(table_.prefix_blocks.end(), s.blocks.begin(), s.blocks.end());
    table_.prefix_start.push_back(std::ssize(table_.prefix_blocks));
    const double gap_s = s.random.exponential(plan_.think_s);
    if (--s.turns_left > 0 && to_seconds(s.next).count() + gap_s < 9.2e6) {
      s.next += to_ticks(Seconds{gap_s});
      open_.push_back(std::move(s));
      std::ranges::push_heap(open_, Later());
    }
  }

  // Gives ids to all blocks that the context fills.
  void fill_blocks(Session& s) {
    while (static_cast<std::int64_t>(s.blocks.size() + 1) * plan_.block_tokens <= s.context) {
      s.blocks.push_back(next_block_++);
    }
  }

  SessionPlan plan_;
  const LengthSampler& lengths_;
  Seed seed_;
  RandomStream starts_;
  RequestTable table_;
  std::vector<std::int64_t> system_blocks_;
  std::int64_t next_block_ = 0;
  std::uint64_t sessions_ = 0;
  double start_s_ = 0.0;
  Ticks next_start_{};
  std::vector<Session> open_;  // a heap: the next turn in front
};

RequestTable make_sessions(ConfigReader& in, Seed seed) {
  const SessionPlan plan = read_plan(in);
  const Extent extent = read_extent(in, plan.session_rate * plan.turns, "session_rate");
  const LengthSampler lengths = read_lengths(in, seed);
  RequestTable table = SessionArrivals(plan, lengths, seed).run(extent, in);
  in.check(!table.trace.requests.empty(), "duration",
           "no request arrives; make the duration longer, or max_context larger.");
  table.trace.source = fmt::format("sessions: {}/s of {} turns, {} s apart, {} new", plan.session_rate, plan.turns,
                                   plan.think_s, lengths.description());
  return table;
}

// Of the turns that the same conversations would have without max_context.
double share_of_turns(ConfigReader& in, Seed seed) {
  const SessionPlan plan = read_plan(in);
  const LengthSampler lengths = read_lengths(in, seed);
  std::int64_t turns = 0, left = 0;
  for (std::uint64_t number = 0; number < kCounted && left < kCountedTurns; ++number) {
    RandomStream random(seed, "requests.sessions", number);
    const std::int64_t drawn = random.geometric(plan.turns);
    std::int64_t context = plan.system_tokens;
    for (std::int64_t t = 0; t < drawn; ++t) {
      const RequestLengths n = lengths.draw(random);
      context += n.input_tokens + n.output_tokens;
      if (context > plan.max_context) {
        break;
      }
      ++left;
      random.exponential(plan.think_s);  // as in take_turn
    }
    turns += drawn;
  }
  return static_cast<double>(left) / static_cast<double>(turns);
}

}  // namespace

extern const RequestSource kSessionsSource{
    "sessions",    "conversations: turns, think time, growing context, shared prefixes",
    make_sessions, kSessionKeys,
    true,          "session_rate",
    "turns",       nullptr,
    share_of_turns};

}  // namespace epsim
