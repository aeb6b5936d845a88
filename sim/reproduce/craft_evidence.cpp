#include "sim/reproduce/craft_evidence.h"

#include "sim/core/check.h"

namespace epsim {

void make_quick(CraftStudyOptions& options) {
  options.overrides.insert(options.overrides.begin(), "requests.count=1500");  // the caller's own come later and win
  options.goodput.min_requests_ratio = 1;
  options.goodput.tolerance = 0.08;
}

const PolicyEvidence& SetupEvidence::of(std::string_view policy) const {
  const auto found = policies.find(policy);
  EPSIM_CHECK(found != policies.end(), "a claim uses only the evidence it asked for");
  return found->second;
}

}  // namespace epsim
