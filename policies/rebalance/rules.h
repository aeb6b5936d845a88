// When to plan again. A rule says when it is worth making a new plan, and whether to switch to the plan that was made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "policies/policy_entry.h"
#include "sim/core/config.h"
#include "sim/core/units.h"

namespace epsim {

// What switching to a new plan would bring and cost.
struct RebalanceOffer {
  Seconds step_now{}, step_then{};  // mean time of a step with the plan in place, and with the new one
  Seconds switching{};              // by which planning and moving weights delay steps, once
};

// Pure: equal inputs give equal answers.
class RebalanceRule {
 public:
  explicit RebalanceRule(std::int64_t interval) : interval_(interval) {}
  virtual ~RebalanceRule() = default;
  // Steps after which the rule is asked, again and again; each time it sees those steps alone.
  std::int64_t interval() const { return interval_; }
  // Whether to plan, by balancedness: the mean over layers and over the interval's steps.
  virtual bool due(double) const { return true; }
  virtual bool accept(const RebalanceOffer&) const { return true; }

 private:
  std::int64_t interval_;
};

// Time of the expert part of a step that took `now` at one balancedness, at another: the busiest GPU sets it, and its
// load is mean / balancedness.
constexpr Seconds expert_time_at(Seconds now, double balancedness_now, double balancedness_then) {
  return now * (balancedness_now / balancedness_then);
}

using RebalanceRuleEntry = PolicyEntry<RebalanceRule>;

// In the order in which they are listed to users.
std::span<const RebalanceRuleEntry> rebalance_rules();

// The rule `name` with its options read from `options`; the caller calls finish() on them. Throws InputError for an
// unknown name (the message lists all, the nearest first) and for options that are out of range.
std::unique_ptr<RebalanceRule> make_rebalance_rule(const std::string& name, ConfigReader& options);

}  // namespace epsim
