#include "traces/requests/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/requests/read_requests.h"

namespace epsim {

namespace {

// Reads min and max of a rule.
template <class Rule>
void read_range(ConfigReader& in, Rule& rule) {
  rule.max = in.required<int>("max", Bound::kPositive);
  rule.min = in.optional<int>("min", 1, Bound::kPositive);
  in.check(rule.min <= rule.max, "min", "this must not be above max.");
}

constexpr double kLongestMean = 1e9;  // tokens; of a lognormal before it is cut

LengthRule read_rule(ConfigReader in) {
  const std::string kind = in.choice("kind", {"fixed", "lognormal", "random", "uniform"});
  if (kind == "fixed") {
    return FixedLength{in.required<int>("tokens", Bound::kPositive)};
  }
  if (kind == "uniform") {
    UniformLength rule;
    read_range(in, rule);
    return rule;
  }
  if (kind == "random") {
    const int longest = in.required<int>("tokens", Bound::kPositive);
    const double ratio = in.optional("range_ratio", 0.0);
    in.check(ratio <= 1, "range_ratio", "this is the shortest length as a share of `tokens`, within 0 and 1.");
    return UniformLength{std::max(1, static_cast<int>(longest * ratio)), longest};
  }
  LognormalLength rule;
  read_range(in, rule);
  const double mean = in.required<double>("mean", Bound::kPositive);
  rule.sigma = in.required<double>("sigma");
  in.check(rule.sigma <= 10, "sigma", "this is the deviation of the logarithm; at most 10 is allowed.");
  // Beyond `max` as well: documents cut at 4096 tokens may be 5000 long on average.
  in.check(mean <= kLongestMean, "mean", fmt::format("at most {:g} is allowed.", kLongestMean));
  rule.mu = std::log(mean) - rule.sigma * rule.sigma / 2.0;  // the mean of exp(N(mu, sigma)) is exp(mu + sigma^2/2)
  return rule;
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

LengthSampler read_lengths(ConfigReader& in, Seed seed) {
  if (!in.has("lengths")) {
    const int input = in.required<int>("input_tokens", Bound::kPositive);
    return {FixedLength{input}, FixedLength{in.required<int>("output_tokens", Bound::kPositive)}};
  }
  for (const char* key : {"input_tokens", "output_tokens"}) {
    in.check(!in.has(key), key, "this is the short form of lengths; state one of them.");
  }
  ConfigReader lengths = in.section("lengths");
  if (!lengths.has("empirical")) {
    LengthRule input = read_rule(lengths.required_section("input"));
    return {input, read_rule(lengths.required_section("output"))};
  }
  ConfigReader trace = lengths.section("empirical");
  return LengthSampler(read_requests(trace, seed));
}

}  // namespace epsim
