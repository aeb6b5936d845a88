// How an instance serves requests: the knobs of its scheduler, under the names that the engine gives them.
#pragma once

#include <cstdint>

#include "sim/core/config.h"
#include "sim/core/units.h"

namespace epsim {

// Which DP rank takes an arriving request.
enum class Router {
  kRoundRobin,   // in order of arrival
  kLeastTokens,  // the rank whose unfinished requests have the fewest input and output tokens; ties: the lowest rank
};

// What a request needs before its first chunk may run.
enum class Admission {
  // Blocks for all of its input and output, so that no running request ever runs out and nothing is retracted. Engines
  // that admit on an estimate (SGLang's new-token ratio) pack more requests and need retraction to go with it.
  kReserveFull,
};

struct ServingOptions {
  int dp_ranks = 1;
  std::int64_t chunked_prefill_size = 4096;  // prompt tokens per DP rank and step (not divided by the number of ranks)
  // true: running decodes join the prefill batch and are taken off its token budget. false: a rank prefills while it
  // can, and decodes only in steps in which it could not prefill (SGLang's enable_mixed_chunk off).
  bool mixed_chunk = true;
  int max_running_requests = 0;  // admitted and unfinished, per rank; 0 = as many as the KV pool holds
  std::int64_t kv_blocks = 0;    // per rank; from the memory model
  int kv_block_tokens = 1;       // SGLang's page_size
  Router router = Router::kRoundRobin;
  Admission admission = Admission::kReserveFull;
  Seconds step_gap{};  // added to every step: scheduler and launches, as declared by the scenario
};

// Reads the keys of the mapping `serving`: engine, chunked_prefill_size, mixed_chunk, max_running_requests, router,
// step_gap. Leaves the kv_ fields to the caller, and finish() too, since other readers may share the mapping.
ServingOptions read_serving_options(ConfigReader& in, int dp_ranks);

}  // namespace epsim
