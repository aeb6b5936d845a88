// What the generators of arrivals share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/core/config.h"
#include "sim/core/key.h"
#include "sim/core/rng.h"
#include "traces/format/request_table.h"

namespace epsim {

// How long a generated trace goes on.
struct Extent {
  std::optional<std::int64_t> count;
  std::optional<Seconds> duration;

  // Whether a request that arrives at `next` still belongs to the trace after `made` others.
  bool goes_on(std::size_t made, Ticks next) const {
    return count ? static_cast<std::int64_t>(made) < *count : next < to_ticks(*duration);
  }
};

inline constexpr KeyTable kExtentKeys({
    {"count", key::whole(Bound::kPositive), key::kNone, "Number of requests; give this or duration."},
    {"duration", key::time(Bound::kPositive), key::kNone, "Time during which requests arrive; give this or count."},
});

inline constexpr KeyTable kPromptKeys({
    {"distinct_prompts", key::whole(Bound::kPositive), key::by("as many as requests"),
     "Prompts that differ; they are sent in turn, so that a prefix cache finds those that it has seen."},
    {"block_tokens", key::whole(Bound::kPositive), key::is(64),
     "Tokens per prefix block of such prompts: what a cache finds is a whole number of them."},
});

// Exactly one of count and duration. `rate` is the mean rate and `rate_key` its key in messages: more than 1e8
// requests or more than 9e6 s are refused.
Extent read_extent(ConfigReader& in, double rate, const std::string& rate_key);

// Gaps of mean 1 whose process is stationary: first() draws the time from an arbitrary instant to the next arrival.
struct GapRule {
  enum class Family { kPoisson, kGamma, kWeibull };
  Family family = Family::kPoisson;
  double shape = 1.0;  // of the gamma or Weibull distribution

  double draw(RandomStream& random) const;
  double first(RandomStream& random) const;
};

// Reads kPromptKeys: from the request numbered `first` on, one of so many prompts in turn, each as long as when it is sent
// first; those before are all of the first prompt.
void repeat_prompts(ConfigReader& in, std::size_t first, RequestTable& table);

// Requests at the instants (s, ascending) that `next_s` gives out, until the extent ends; lengths by the keys of
// read_lengths() and kPromptKeys. `kind` begins the trace's source. Throws InputError when no request arrives.
RequestTable generate(ConfigReader& in, Seed seed, const Extent& extent, const std::string& kind,
                      const std::function<double()>& next_s);

}  // namespace epsim
