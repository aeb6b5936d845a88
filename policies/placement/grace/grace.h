// GRACE-MoE: groups of experts that serve the same tokens, first onto nodes, then onto GPUs, and copies where the
// groups are too heavy (Sec. 4.1 and 4.2 of the paper, Appendix A.2).
//   Needs  : a load window with co-activation counts, that is, made from a per-token routing trace.
//   Models : fully non-uniform groups on nodes, controlled sizes on the GPUs of a node, dynamic replication.
//   Ignores: memory being equal over GPUs: groups differ in size, and the fullest GPU sets what the others have left;
//            an optional bound on a GPU's group keeps that in hand.
//   Routing: replica_choice/weighted.h, with the predicted loads of grace_explain().
#pragma once

#include <optional>
#include <vector>

#include "policies/placement/grace/grouping.h"
#include "policies/placement/grace/replication.h"
#include "policies/placement_policy.h"
#include "sim/core/config.h"

namespace epsim {

struct GraceOptions {
  std::optional<double> ratio = 0.15;  // r of Algorithm 2; absent = the knee over 0.05, 0.10, .., 0.50
  GraceReplication replication = GraceReplication::kDynamic;
  GracePrediction prediction = GracePrediction::kConserving;
  GraceScore score = GraceScore::kGain;
  std::optional<int> max_experts_per_gpu;  // of a layer, before copies; absent = only the ratio bounds it
  Seed seed{0};
  InputPlace place;  // where the options stand, for messages
};

// Why a plan is as it is.
struct GraceExplanation {
  double ratio = 0;                 // used for all layers
  std::vector<RatioPoint> points;   // that the knee was taken from; empty when the ratio was given
  std::vector<Grouping> groups;     // [layer][GPU]
  std::vector<GraceCopies> copies;  // [layer]
};

// `why` is filled in when given. Throws InputError when the window has no co-activation counts, or fewer experts than
// GPUs.
PlacementPlan grace_plan(const GraceOptions& options, const LoadWindow& load, const ClusterShape& shape,
                         GraceExplanation* why = nullptr);

GraceOptions read_grace_options(ConfigReader& in);

}  // namespace epsim
