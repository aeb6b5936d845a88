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

// How the plan that is in place does.
struct RebalanceState {
  std::int64_t steps_since_look = 0;  // since the rule last asked for a plan, or since the start
  double balancedness = 1;            // mean over layers and over those steps
};

// What switching to a new plan would bring and cost.
struct RebalanceOffer {
  Seconds step_now{}, step_then{};  // mean time of a step with the plan in place, and with the new one
  Seconds switching{};              // by which planning and moving weights delay steps, once
};

// Pure: equal inputs give equal answers.
class RebalanceRule {
 public:
  virtual ~RebalanceRule() = default;
  virtual bool due(const RebalanceState& state) const = 0;
  virtual bool accept(const RebalanceOffer&) const { return true; }
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
