// The serving simulation as one function.
#pragma once

#include <span>

#include "sim/cluster/instance.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_result.h"
#include "sim/core/error.h"
#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// A request that no KV pool of a DP rank holds.
struct RequestTooLong : InputError {
  RequestTooLong(InputPlace at, const std::string& what_is_wrong, std::int64_t tokens)
      : InputError(std::move(at), what_is_wrong), pool_tokens(tokens) {}
  std::int64_t pool_tokens;  // that a DP rank's pool has
};

// Throws InputError when the trace is not valid or holds a request that no KV pool of such an instance can hold.
void check_requests(const RequestTrace& trace, const ServingOptions& options);

// Serves the trace from empty to empty on one instance. Equal arguments (and a model that prices equal steps alike)
// give equal results, fingerprint included. Of the result's fields, the model's `detail`, the plan's and the memory's
// are the caller's.
//
// Throws InputError when the trace is not valid or holds a request that no KV pool can hold (naming it), and
// InvariantBroken when the run contradicts itself.
RunResult simulate(const RequestTrace& trace, const ServingOptions& options, InstanceModel& model,
                   const RunControl& control);

// The same on several instances (deployment.h), requests routed by `router`. Instances of one role stand together,
// decode instances last; with prefill instances there are decode instances, and no whole ones.
// A request that is lost with hardware starts anew up to `retry_limit` times.
RunResult simulate(const RequestTrace& trace, std::span<const InstanceSpec> instances, Router router,
                   const RunControl& control, int retry_limit = 0);
// Likewise, of a trace that gives its rows up as their records are made: a large run does not hold both.
RunResult simulate(RequestTrace&& trace, std::span<const InstanceSpec> instances, Router router,
                   const RunControl& control, int retry_limit = 0);

}  // namespace epsim
