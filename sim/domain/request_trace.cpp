#include "sim/domain/request_trace.h"

#include <fmt/format.h>

#include "sim/core/error.h"

namespace epsim {

void RequestTrace::validate() const {
  const auto refuse = [&](std::size_t i, const std::string& what) {
    throw InputError({source, 0, ""}, fmt::format("request {}: {}", i + 1, what));
  };
  if (requests.empty()) {
    throw InputError({source, 0, ""}, "the trace holds no request.");
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& r = requests[i];
    if (r.input_tokens <= 0 || r.output_tokens <= 0) {
      refuse(i,
             fmt::format("{} input and {} output tokens; both must be at least 1.", r.input_tokens, r.output_tokens));
    }
    if (r.arrival.count() < 0) {
      refuse(i, "it arrives before the start of the run.");
    }
    if (i > 0 && r.arrival < requests[i - 1].arrival) {
      refuse(i, "it arrives before the one ahead of it; arrivals must be in order of time.");
    }
  }
}

}  // namespace epsim
