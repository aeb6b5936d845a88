// Which policy a goodput study recommends, in one sentence.
#include <fmt/format.h>

#include "sim/report/goodput_summary.h"

namespace epsim {

std::string plain_name(const std::string& policy) {
  return policy == "contiguous" ? "load balancing off" : policy == "base" ? "placement alone" : policy;
}

RateVerdict goodput_verdict(const GoodputStudy& study) {
  const GoodputOptions& options = study.options;
  std::vector<RateChoice> choices;
  for (const PolicyGoodput& policy : summarize(study)) {
    RateChoice& choice =
        choices.emplace_back(RateChoice{plain_name(policy.policy), {}, policy.kv_lost_share, policy.slo.limit});
    for (int s = 0; s < study.seeds; ++s) {
      choice.by_seed.push_back(rate_of(study, search_of(study, choices.size() - 1, s)));
    }
  }
  return verdict_against_first(
      choices, {options.slo.any() ? "within the SLO"
                                  : fmt::format("with a mean TTFT of at most {:g} times the idle one", options.k),
                options.tolerance, "--seeds 3"});
}

}  // namespace epsim
