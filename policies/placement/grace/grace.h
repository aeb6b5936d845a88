// GRACE-MoE: groups of experts that serve the same tokens, first onto nodes, then onto GPUs, and copies where the
// groups are too heavy (Sec. 4.1 and 4.2 of the paper, Appendix A.2).
//   Needs  : a load window with co-activation counts, that is, made from a per-token routing trace.
//   Models : fully non-uniform groups on nodes, controlled sizes on the GPUs of a node, dynamic replication.
//   Ignores: memory being equal over GPUs: groups differ in size, and the fullest GPU sets what the others have left;
//            an optional bound on a GPU's group keeps that in hand.
//   Routing: replica_choice/grace_routing.h, with the predicted loads of grace_explain().
#pragma once

#include <optional>
#include <vector>

#include "policies/placement/grace/grouping.h"
#include "policies/placement/grace/replication.h"
#include "policies/plan_explanation.h"
#include "policies/registry.h"

namespace epsim {

struct GraceOptions {
  std::optional<double> ratio = 0.15;  // r of Algorithm 2; absent = the knee over 0.05, 0.10, .., 0.50
  GraceReplication replication = GraceReplication::kDynamic;
  Prediction prediction = Prediction::kConserving;
  GraceScore score = GraceScore::kGain;
  std::optional<int> max_experts_per_gpu;  // of a layer, before copies; absent = only the ratio bounds it
  Seed seed{0};
  InputPlace place;  // where the options stand, for messages
};

inline constexpr KeyTable kGraceKeys({
    {"ratio", key::text(), key::is("0.15"), "Allowed deviation of group sizes, 0 to 1, or knee."},
    {"replication", key::one_of<GraceReplication>(), key::is(GraceReplication::kDynamic),
     "How many copies hot experts get."},
    {"prediction", key::one_of<Prediction>(), key::is(Prediction::kConserving), "How the load of copies is predicted."},
    {"score", key::one_of<GraceScore>(), key::is(GraceScore::kGain), "What grouping maximises."},
    {"max_experts_per_gpu", key::whole(Bound::kPositive), key::by("no limit"), "Most experts of a layer on one GPU."},
    {"seed", key::whole(), key::is(0), "Seed of the policy's own draws."},
});
inline constexpr std::string_view kGraceIgnores =
    "equal memory on all GPUs (groups differ in size); who sends the tokens";
std::unique_ptr<PlacementPolicy> make_grace(ConfigReader& options);

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

// As tables. `load`: the window that was planned from.
PlanExplanation explain_grace(const GraceExplanation& why, const LoadWindow& load);

}  // namespace epsim
