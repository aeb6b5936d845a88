#include "policies/rebalance/rules.h"

namespace epsim {
namespace {

class Never final : public RebalanceRule {
 public:
  bool due(const RebalanceState&) const override { return false; }
};

class EverySteps final : public RebalanceRule {
 public:
  explicit EverySteps(std::int64_t steps) : steps_(steps) {}
  bool due(const RebalanceState& state) const override { return state.steps_since_look >= steps_; }

 private:
  std::int64_t steps_;
};

class BelowThreshold final : public RebalanceRule {
 public:
  BelowThreshold(double balancedness, std::int64_t steps) : balancedness_(balancedness), steps_(steps) {}
  bool due(const RebalanceState& state) const override {
    return state.steps_since_look >= steps_ && state.balancedness < balancedness_;
  }

 private:
  double balancedness_;
  std::int64_t steps_;
};

class GainOverCost final : public RebalanceRule {
 public:
  GainOverCost(std::int64_t steps, std::int64_t horizon) : steps_(steps), horizon_(horizon) {}
  bool due(const RebalanceState& state) const override { return state.steps_since_look >= steps_; }
  bool accept(const RebalanceOffer& offer) const override {
    return (offer.step_now - offer.step_then) * static_cast<double>(horizon_) > offer.switching;
  }

 private:
  std::int64_t steps_, horizon_;
};

std::int64_t read_steps(ConfigReader& options, const char* key, std::int64_t fallback) {
  return options.optional<std::int64_t>(key, fallback, Bound::kPositive);
}

std::unique_ptr<RebalanceRule> make_never(ConfigReader&) { return std::make_unique<Never>(); }

std::unique_ptr<RebalanceRule> make_every(ConfigReader& options) {
  return std::make_unique<EverySteps>(read_steps(options, "steps", 3000));
}

std::unique_ptr<RebalanceRule> make_threshold(ConfigReader& options) {
  const double balancedness = options.optional("balancedness", 1.0, Bound::kPositive);
  options.check(balancedness <= 1, "balancedness", "mean over maximum GPU load is at most 1.");
  return std::make_unique<BelowThreshold>(balancedness, read_steps(options, "steps", 1000));
}

std::unique_ptr<RebalanceRule> make_gain(ConfigReader& options) {
  const std::int64_t steps = read_steps(options, "steps", 1000);
  return std::make_unique<GainOverCost>(steps, read_steps(options, "horizon", steps));
}

// Defaults: vLLM plans every 3000 steps (step_interval); SGLang looks every 1000 (eplb_rebalance_num_iterations) and
// plans when utilisation is below 1.0 (eplb_min_rebalancing_utilization_threshold).
constexpr RebalanceRuleEntry kRebalanceRules[] = {
    {"never", "The first plan stays for the whole run.", "everything", "none", make_never},
    {"every", "A new plan every so many steps (vLLM's step_interval).", "whether a new plan is needed, or pays",
     "steps (3000)", make_every},
    {"threshold", "A new plan when balancedness over the last so many steps is below a bound (SGLang).",
     "whether a new plan pays", "balancedness (1.0), steps (1000)", make_threshold},
    {"gain",
     "A new plan every so many steps, taken when the step time it saves over the horizon exceeds planning and moving.",
     "what changes after the horizon", "steps (1000), horizon (in steps; as steps)", make_gain},
};

}  // namespace

std::span<const RebalanceRuleEntry> rebalance_rules() { return kRebalanceRules; }

std::unique_ptr<RebalanceRule> make_rebalance_rule(const std::string& name, ConfigReader& options) {
  return require_named(rebalance_rules(), "rebalance rule", name, options).make(options);
}

}  // namespace epsim
