#include "sim/cluster/simulate.h"

#include <fmt/format.h>

#include <utility>

#include "sim/cluster/deployment.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "sim/scheduler/kv_pool.h"

namespace epsim {
namespace {

void require_that_requests_fit(const RequestTrace& trace, const ServingOptions& options) {
  const KvPool pool(options.kv_blocks, options.kv_block_tokens);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& r = trace.requests[i];
    if (options.longest_prompt > 0 && r.input_tokens > options.longest_prompt &&
        options.role != InstanceRole::kDecode) {
      throw InputError(
          {trace.source, 0, ""},
          fmt::format("request {} has {} input tokens, and the engine takes prompts whole, of up to {}; turn "
                      "chunked prefill on, or allow for more tokens in a step.",
                      i + 1, r.input_tokens, options.longest_prompt));
    }
    const std::int64_t tokens = std::int64_t{r.input_tokens} + r.output_tokens;
    if (!pool.has_room(options.kv_blocks_per_request + pool.blocks_for(tokens))) {
      const std::int64_t state = options.kv_blocks_per_request * options.kv_block_tokens;
      const std::int64_t held = options.kv_blocks * options.kv_block_tokens;
      throw RequestTooLong(
          {trace.source, 0, ""},
          fmt::format("request {} needs {} tokens of KV cache ({} input + {} output{}), but the pool of a DP "
                      "rank holds {}; a request must fit an empty pool.",
                      i + 1, tokens + state, r.input_tokens, r.output_tokens,
                      state > 0 ? fmt::format(" + {} for windows and linear-attention states", state) : "", held),
          held);
    }
  }
}

void require_whole_pages(const RequestTrace& trace, const ServingOptions& options) {
  refuse_if(
      options.prefix_caching && trace.prefixes.known() && trace.prefixes.block_tokens % options.kv_block_tokens != 0,
      {trace.source, 0, ""},
      fmt::format("its prefix blocks of {} tokens are no whole number of KV pages of {} tokens; choose a page size "
                  "that divides them, or turn the prefix cache off.",
                  trace.prefixes.block_tokens, options.kv_block_tokens));
}

void check_requests(const RequestTrace& trace, std::span<const InstanceSpec> instances) {
  EPSIM_CHECK(!instances.empty(), "a deployment has at least one instance");
  for (const InstanceSpec& spec : instances) {
    EPSIM_CHECK(spec.options.dp_ranks > 0, "an instance has at least one DP rank");
    check_requests(trace, spec.options);
  }
}

}  // namespace

void check_requests(const RequestTrace& trace, const ServingOptions& options) {
  trace.validate();
  require_that_requests_fit(trace, options);
  require_whole_pages(trace, options);
}

RunResult simulate(const RequestTrace& trace, std::span<const InstanceSpec> instances, Router router,
                   const RunControl& control, int retry_limit) {
  check_requests(trace, instances);
  return Deployment(trace, records_of(trace.requests), instances, router, control, retry_limit).run();
}

RunResult simulate(RequestTrace&& trace, std::span<const InstanceSpec> instances, Router router,
                   const RunControl& control, int retry_limit) {
  check_requests(trace, instances);
  return Deployment(trace, records_of(std::move(trace.requests)), instances, router, control, retry_limit).run();
}

RunResult simulate(const RequestTrace& trace, const ServingOptions& options, InstanceModel& model,
                   const RunControl& control) {
  InstanceSpec spec;
  spec.options = options;
  spec.model = &model;
  return simulate(trace, std::span<const InstanceSpec>(&spec, 1), options.router, control);
}

}  // namespace epsim
