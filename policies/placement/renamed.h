// A preset: a placement policy whose options start from other values, and whose plans bear the preset's name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "policies/plan_explanation.h"

namespace epsim {

class RenamedPlacement final : public ExplainedPolicy {
 public:
  RenamedPlacement(std::string name, std::unique_ptr<PlacementPolicy> policy)
      : name_(std::move(name)), policy_(std::move(policy)) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    PlacementPlan out = policy_->plan(load, shape);
    out.policy = name_;
    return out;
  }
  std::optional<PlanExplanation> explain(const LoadWindow& load, const ClusterShape& shape) const override {
    return explanation_of(*policy_, load, shape);
  }

 private:
  std::string name_;
  std::unique_ptr<PlacementPolicy> policy_;
};

}  // namespace epsim
