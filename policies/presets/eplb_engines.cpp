// EPLB as engines run it: their arithmetic, hierarchical wherever the groups divide over the nodes, and their rule for
// choosing a copy.
#include "policies/placement/eplb.h"
#include "policies/placement/renamed.h"

namespace epsim {
namespace {

constexpr KeyTable kSglangKeys =
    kEplbKeys.with_default("variant", key::is(EplbVariant::kSglang)).with_default("mode", key::is(EplbMode::kAuto));
constexpr KeyTable kVllmKeys =
    kEplbKeys.with_default("variant", key::is(EplbVariant::kVllm)).with_default("mode", key::is(EplbMode::kAuto));

std::unique_ptr<PlacementPolicy> make_sglang(ConfigReader& options) {
  options.preset(kSglangKeys["variant"]);
  options.preset(kSglangKeys["mode"]);
  return std::make_unique<RenamedPlacement>("eplb_sglang", make_eplb(options));
}

std::unique_ptr<PlacementPolicy> make_vllm(ConfigReader& options) {
  options.preset(kVllmKeys["variant"]);
  options.preset(kVllmKeys["mode"]);
  return std::make_unique<RenamedPlacement>("eplb_vllm", make_eplb(options));
}

}  // namespace

extern const PlacementPolicyEntry kEplbSglang{
    {"eplb_sglang", "EPLB as SGLang runs it: variant sglang, mode auto, copies chosen by sglang_static.", "as eplb",
     kSglangKeys, make_sglang},
    ExpertGroups::kAsArgument,
    CopyBudget::kPerLayer,
    "sglang_static",
    false,
    Ceiling::kNone,
    "sglang"};
extern const PlacementPolicyEntry kEplbVllm{
    {"eplb_vllm", "EPLB as vLLM runs it: variant vllm, mode auto, copies chosen by vllm_hash.", "as eplb", kVllmKeys,
     make_vllm},
    ExpertGroups::kAsArgument,
    CopyBudget::kPerLayer,
    "vllm_hash",
    true,
    Ceiling::kNone,
    "vllm"};

}  // namespace epsim
