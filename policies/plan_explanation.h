// Why a policy's plan is as it is, as tables for people and JSON for programs: what `epsim plan --explain` shows beside the
// plan. A policy that has something to tell derives from ExplainedPolicy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/placement_policy.h"

namespace epsim {

struct ExplanationTable {
  struct Column {
    std::string head{}, under{};
    bool text = false;  // else numbers, to the right
  };
  std::string title{};    // paragraphs ahead of it
  bool by_layer = false;  // row l is of MoE layer l of the window; its name comes first
  std::vector<Column> columns{};
  std::vector<std::vector<std::string>> rows{};
};

struct PlanExplanation {
  std::vector<ExplanationTable> tables{};
  std::string key{}, json{};  // a member of the plan's file; empty: none
};

class ExplainedPolicy : public PlacementPolicy {
 public:
  // Plans again, from the same loads for the same shape. Nothing where a policy inside has nothing to tell.
  virtual std::optional<PlanExplanation> explain(const LoadWindow& load, const ClusterShape& shape) const = 0;
};

// Of any policy.
inline std::optional<PlanExplanation> explanation_of(const PlacementPolicy& policy, const LoadWindow& load,
                                                     const ClusterShape& shape) {
  const auto* explained = dynamic_cast<const ExplainedPolicy*>(&policy);
  return explained == nullptr ? std::nullopt : explained->explain(load, shape);
}

}  // namespace epsim
