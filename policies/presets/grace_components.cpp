// The components of GRACE-MoE as its Sec. 5.3 and Figure 5 compare them, each under a name: what is grouped and copied,
// and which copy serves a token. Vanilla is in placement/contiguous.cpp.
//   Readings: Vanilla ("average grouping") holds experts in order, as many on each GPU. FR has no routing of its own in
//             the paper: its two copies share evenly. Rows are counted as the scenario's `dispatch` says, for all
//             alike.
#include "policies/placement/grace/grace.h"
#include "policies/placement/renamed.h"

namespace epsim {
namespace {

constexpr KeyTable kAlone = kGraceKeys.with_default("replication", key::is(GraceReplication::kNone));
constexpr KeyTable kFixed = kGraceKeys.with_default("replication", key::is(GraceReplication::kFixed));

std::unique_ptr<PlacementPolicy> grouped(const char* name, const Key& replication, ConfigReader& options) {
  options.preset(replication);
  return std::make_unique<RenamedPlacement>(name, make_grace(options));
}

std::unique_ptr<PlacementPolicy> make_hg(ConfigReader& options) {
  return grouped("grace_hg", kAlone["replication"], options);
}
std::unique_ptr<PlacementPolicy> make_hg_fr(ConfigReader& options) {
  return grouped("grace_hg_fr", kFixed["replication"], options);
}
std::unique_ptr<PlacementPolicy> make_hg_dr_wrr(ConfigReader& options) {
  return grouped("grace_hg_dr_wrr", kGraceKeys["replication"], options);
}
std::unique_ptr<PlacementPolicy> make_hg_dr_tar(ConfigReader& options) {
  return grouped("grace_hg_dr_tar", kGraceKeys["replication"], options);
}

}  // namespace

extern const PlacementPolicyEntry kGraceHg{
    {"grace_hg", "HG of GRACE-MoE's component study: groups by affinity on nodes and GPUs, no copies.", kGraceIgnores,
     kAlone, make_hg}};
extern const PlacementPolicyEntry kGraceHgFr{
    {"grace_hg_fr", "HG+FR: hot experts of the heaviest group once more on the lightest GPU, copies share evenly.",
     kGraceIgnores, kFixed, make_hg_fr}};
extern const PlacementPolicyEntry kGraceHgDrWrr{
    {"grace_hg_dr_wrr", "HG+DR+WRR: as many copies as the skew asks for (Eq. 2), chosen by weighted_round_robin.",
     kGraceIgnores, kGraceKeys, make_hg_dr_wrr},
    ExpertGroups::kUnknown,
    CopyBudget::kFixed,
    "weighted_round_robin"};
extern const PlacementPolicyEntry kGraceHgDrTar{
    {"grace_hg_dr_tar", "HG+DR+TAR, all of GRACE-MoE: copies as in HG+DR+WRR, chosen by topology_aware.", kGraceIgnores,
     kGraceKeys, make_hg_dr_tar},
    ExpertGroups::kUnknown,
    CopyBudget::kFixed,
    "topology_aware"};

}  // namespace epsim
