#include "traces/requests/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "traces/requests/read_requests.h"

namespace epsim {

namespace {

// A distribution: the keys of its own, and what makes a rule of them.
struct LengthKind {
  std::string_view name;
  std::span<const Key> keys;
  LengthRule (*read)(ConfigReader&);
};

constexpr KeyTable kBoundKeys({
    {"min", key::whole(Bound::kPositive), key::is(1), "Shortest length; shorter ones are raised to it."},
    {"max", key::whole(Bound::kPositive), key::kRequired, "Longest length; longer ones are cut to it."},
});
constexpr KeyTable kFixedKeys({{"tokens", key::whole(Bound::kPositive), key::kRequired, "The length."}});
constexpr KeyTable kLognormalKeys =
    KeyTable({
        // Beyond `max` as well: documents cut at 4096 tokens may be 5000 long on average.
        {"mean", key::number(at_most(1e9, Bound::kPositive)), key::kRequired, "Mean before cutting."},
        {"sigma", key::number(at_most(10)), key::kRequired, "Standard deviation of the logarithm."},
    }) +
    kBoundKeys;
constexpr KeyTable kRandomKeys({
    {"tokens", key::whole(Bound::kPositive), key::kRequired, "The longest length."},
    {"range_ratio", key::number(kShare), key::is(0.0), "Shortest length as a share of the longest."},
});

constexpr Key kMaxKey = kBoundKeys["max"], kMinKey = kBoundKeys["min"];  // clang 14 takes them in no template

template <class Rule>
void read_bounds(ConfigReader& in, Rule& rule) {
  rule.max = in.read<int>(kMaxKey);
  rule.min = in.read<int>(kMinKey);
  in.check(rule.min <= rule.max, "min", "this must not be above max.");
}

LengthRule read_fixed(ConfigReader& in) { return FixedLength{in.read<int>(kFixedKeys["tokens"])}; }

LengthRule read_uniform(ConfigReader& in) {
  UniformLength rule;
  read_bounds(in, rule);
  return rule;
}

LengthRule read_random(ConfigReader& in) {
  const int longest = in.read<int>(kRandomKeys["tokens"]);
  const double ratio = in.read<double>(kRandomKeys["range_ratio"]);
  return UniformLength{std::max(1, static_cast<int>(longest * ratio)), longest};
}

LengthRule read_lognormal(ConfigReader& in) {
  LognormalLength rule;
  read_bounds(in, rule);
  const double mean = in.read<double>(kLognormalKeys["mean"]);
  rule.sigma = in.read<double>(kLognormalKeys["sigma"]);
  rule.mu = std::log(mean) - rule.sigma * rule.sigma / 2.0;  // the mean of exp(N(mu, sigma)) is exp(mu + sigma^2/2)
  return rule;
}

constexpr LengthKind kLengthKinds[] = {{"fixed", kFixedKeys, read_fixed},
                                       {"lognormal", kLognormalKeys, read_lognormal},
                                       {"random", kRandomKeys, read_random},
                                       {"uniform", kBoundKeys, read_uniform}};

constexpr KeyTable kSectionKeys({
    {"input", key::section(), key::by("required without empirical"), "Prompt lengths; `output` takes the same keys."},
    {"output", key::section(), key::by("required without empirical"), "Answer lengths; keys as in `input`."},
    {"empirical", key::section(), key::kNone,
     "Lengths drawn from the rows of a recorded trace; keys as in `requests`."},
});
constexpr KeyTable kRuleKeys({{"kind", key::one_of([] { return entry_names(kLengthKinds); }), key::kRequired,
                               "Distribution."}});

LengthRule read_rule(ConfigReader in) {
  const auto kind = in.read<std::string>(kRuleKeys["kind"]);
  return std::ranges::find(kLengthKinds, kind, &LengthKind::name)->read(in);
}

std::string describe(const LengthRule& rule) {
  if (const auto* fixed = std::get_if<FixedLength>(&rule)) {
    return fmt::format("{}", fixed->tokens);
  }
  if (const auto* uniform = std::get_if<UniformLength>(&rule)) {
    return fmt::format("{} to {}", uniform->min, uniform->max);
  }
  const auto& lognormal = std::get<LognormalLength>(rule);
  return fmt::format("lognormal (mu {:.4g}, sigma {:.4g}, {} to {})", lognormal.mu, lognormal.sigma, lognormal.min,
                     lognormal.max);
}

}  // namespace

std::int32_t draw_length(const LengthRule& rule, RandomStream& random) {
  if (const auto* fixed = std::get_if<FixedLength>(&rule)) {
    return fixed->tokens;
  }
  if (const auto* uniform = std::get_if<UniformLength>(&rule)) {
    const auto width = static_cast<std::uint64_t>(uniform->max - uniform->min) + 1;
    return uniform->min + static_cast<std::int32_t>(random.below(width));
  }
  const auto& lognormal = std::get<LognormalLength>(rule);
  const double drawn = std::nearbyint(random.lognormal(lognormal.mu, lognormal.sigma));
  return static_cast<std::int32_t>(
      std::clamp(drawn, static_cast<double>(lognormal.min), static_cast<double>(lognormal.max)));
}

LengthSampler::LengthSampler(const RequestTrace& trace) : rows_source_(trace.source) {
  for (const Request& r : trace.requests) {
    rows_.push_back({r.input_tokens, r.output_tokens});
  }
}

RequestLengths LengthSampler::draw(RandomStream& random) const {
  if (!rows_.empty()) {
    return rows_[random.below(rows_.size())];
  }
  const std::int32_t input = draw_length(input_, random);
  return {input, draw_length(output_, random)};
}

std::string LengthSampler::description() const {
  return rows_.empty() ? fmt::format("{} input and {} output tokens", describe(input_), describe(output_))
                       : "lengths of " + rows_source_;
}

std::vector<SectionKeys> lengths_keys() {
  std::vector<SectionKeys> out{{"requests.lengths", "", kSectionKeys}, {"requests.lengths.input", "", kRuleKeys}};
  add_entries("requests.lengths.input", kLengthKinds, out);
  return out;
}

LengthSampler read_lengths(ConfigReader& in, Seed seed) {
  if (!in.has("lengths")) {
    const int input = in.read<int>(kLengthKeys["input_tokens"]);
    return {FixedLength{input}, FixedLength{in.read<int>(kLengthKeys["output_tokens"])}};
  }
  for (const char* key : {"input_tokens", "output_tokens"}) {
    in.check(!in.has(key), key, "this is the short form of lengths; state one of them.");
  }
  ConfigReader lengths = in.section(kLengthKeys["lengths"]);
  if (!lengths.has("empirical")) {
    LengthRule input = read_rule(lengths.section(kSectionKeys["input"]));
    return {input, read_rule(lengths.section(kSectionKeys["output"]))};
  }
  ConfigReader trace = lengths.section(kSectionKeys["empirical"]);
  return LengthSampler(read_requests(trace, seed));
}

}  // namespace epsim
