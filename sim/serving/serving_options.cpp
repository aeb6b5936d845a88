#include "sim/serving/serving_options.h"

#include <string>

namespace epsim {

ServingOptions read_serving_options(ConfigReader& in, int dp_ranks) {
  ServingOptions out;
  out.dp_ranks = dp_ranks;
  in.choice("engine", {"sglang_0_4_8"}, "sglang_0_4_8");
  out.chunked_prefill_size =
      in.optional<std::int64_t>("chunked_prefill_size", out.chunked_prefill_size, Bound::kPositive);
  out.mixed_chunk = in.optional("mixed_chunk", out.mixed_chunk);
  out.max_running_requests = in.optional("max_running_requests", out.max_running_requests);
  const std::string router = in.choice("router", {"round_robin", "least_tokens"}, "round_robin");
  out.router = router == "round_robin" ? Router::kRoundRobin : Router::kLeastTokens;
  out.step_gap = in.optional("step_gap", out.step_gap);
  return out;
}

}  // namespace epsim
