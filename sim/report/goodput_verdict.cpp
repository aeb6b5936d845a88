// Which policy a goodput study recommends, in one sentence.
#include <fmt/format.h>

#include "sim/report/goodput_summary.h"

namespace epsim {

std::string plain_name(const std::string& policy) {
  return policy == "contiguous" ? "load balancing off" : policy == "base" ? "placement alone" : policy;
}

RateVerdict goodput_verdict(const GoodputStudy& study) {
  const GoodputOptions& options = study.options;
  const std::vector<PolicyGoodput> summaries = summarize(study);
  std::vector<RateChoice> choices;
  std::vector<std::size_t> policies;  // of the choices
  for (const PolicyGoodput& policy : summaries) {
    const auto number = static_cast<std::size_t>(&policy - summaries.data());
    if (is_gain_variant(policy.policy)) {
      continue;
    }
    policies.push_back(number);
    RateChoice& choice =
        choices.emplace_back(RateChoice{plain_name(policy.policy), {}, policy.kv_lost_share, policy.slo.limit});
    for (int s = 0; s < study.seeds; ++s) {
      choice.by_seed.push_back(rate_of(study, search_of(study, number, s)));
    }
  }
  RateVerdict verdict = verdict_against_first(
      choices, {options.slo.any() ? "within the SLO"
                                  : fmt::format("with a mean TTFT of at most {:g} times the idle one", options.k),
                options.tolerance, "--seeds 3"});
  verdict.chosen = policies.empty() ? 0 : policies[verdict.chosen];
  return verdict;
}

}  // namespace epsim
