// The kinds of request sources behind read_requests(), one file each.
#pragma once

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/request_trace.h"
#include "traces/requests/request_options.h"
#include "traces/text_input.h"

namespace epsim {

// Keys: rate; count or duration; input_tokens, output_tokens. Gaps between arrivals are exponential (Poisson process).
RequestTrace make_poisson(ConfigReader& in, Seed seed);
// The same keys; the k-th request (k = 0, 1, ...) arrives at k / rate.
RequestTrace make_constant(ConfigReader& in, Seed seed);

// Keys: path and those of RequestOptions.
RequestTrace make_azure_csv(ConfigReader& in, Seed seed);
// Azure's LLM inference traces of 2023: TIMESTAMP (date and time of day, up to 9 decimals), ContextTokens,
// GeneratedTokens.
RequestTrace read_azure_csv(ByteInput& input, const RequestOptions& options);

}  // namespace epsim
