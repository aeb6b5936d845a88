#include "policies/rebalance/rules.h"

#include <limits>

namespace epsim {
namespace {

class Never final : public RebalanceRule {
 public:
  Never() : RebalanceRule(std::numeric_limits<std::int64_t>::max()) {}
};

class BelowThreshold final : public RebalanceRule {
 public:
  BelowThreshold(double bound, std::int64_t steps) : RebalanceRule(steps), bound_(bound) {}
  bool due(double balancedness) const override { return balancedness < bound_; }

 private:
  double bound_;
};

class GainOverCost final : public RebalanceRule {
 public:
  GainOverCost(std::int64_t steps, std::int64_t horizon) : RebalanceRule(steps), horizon_(horizon) {}
  bool accept(const RebalanceOffer& offer) const override {
    return (offer.step_now - offer.step_then) * static_cast<double>(horizon_) > offer.switching;
  }

 private:
  std::int64_t horizon_;
};

constexpr std::string_view kBetween = "Steps between looks.";
// vLLM plans every 3000 steps (step_interval); SGLang looks every 1000 (eplb_rebalance_num_iterations) and plans when
// utilisation is below 1.0 (eplb_min_rebalancing_utilization_threshold).
constexpr KeyTable kEveryKeys({{"steps", key::whole(Bound::kPositive), key::is(3000), kBetween}});
constexpr KeyTable kThresholdKeys({
    {"balancedness", key::number(at_most(1, Bound::kPositive)), key::is(1.0),
     "Plan again when mean over maximum GPU load is below this."},
    {"steps", key::whole(Bound::kPositive), key::is(1000), kBetween},
});
constexpr KeyTable kGainKeys({
    {"steps", key::whole(Bound::kPositive), key::is(1000), kBetween},
    {"horizon", key::whole(Bound::kPositive), key::by("as steps"), "Steps over which a new plan has to pay."},
});

std::unique_ptr<RebalanceRule> make_never(ConfigReader&) { return std::make_unique<Never>(); }

std::unique_ptr<RebalanceRule> make_every(ConfigReader& options) {
  return std::make_unique<RebalanceRule>(options.read<std::int64_t>(kEveryKeys["steps"]));
}

std::unique_ptr<RebalanceRule> make_threshold(ConfigReader& options) {
  return std::make_unique<BelowThreshold>(options.read<double>(kThresholdKeys["balancedness"]),
                                          options.read<std::int64_t>(kThresholdKeys["steps"]));
}

std::unique_ptr<RebalanceRule> make_gain(ConfigReader& options) {
  const auto steps = options.read<std::int64_t>(kGainKeys["steps"]);
  return std::make_unique<GainOverCost>(steps, options.read<std::int64_t>(kGainKeys["horizon"], steps));
}

constexpr RebalanceRuleEntry kRebalanceRules[] = {
    {"never", "The first plan stays for the whole run.", "everything", {}, make_never},
    {"every", "A new plan every n steps (vLLM's step_interval).", "whether a new plan is needed, or pays", kEveryKeys,
     make_every},
    {"threshold", "A new plan when balancedness over the last n steps is below a bound (SGLang).",
     "whether a new plan pays", kThresholdKeys, make_threshold},
    {"gain",
     "A new plan every n steps, adopted when the step time it saves over the horizon exceeds planning and moving.",
     "what changes after the horizon", kGainKeys, make_gain},
};

}  // namespace

std::span<const RebalanceRuleEntry> rebalance_rules() { return kRebalanceRules; }

std::unique_ptr<RebalanceRule> make_rebalance_rule(const std::string& name, ConfigReader& options) {
  return require_named(rebalance_rules(), "rebalance rule", name, options.place("")).make(options);
}

}  // namespace epsim
