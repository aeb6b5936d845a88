// What is known of a request during and after a run: its state, the rank that served it, its times.
#pragma once

#include <cstdint>

#include "sim/core/units.h"

namespace epsim {

enum class RequestState : std::uint8_t {
  kWaiting,  // not finished when the run was cut short, and without tokens in the KV pool
  kRunning,  // likewise, with tokens in the KV pool
  kCompleted,
  kFailed,  // lost with hardware, and not retried, or as often as allowed
};

// One request of the trace, in the trace's order. Times count from the start of the run.
struct RequestRecord {
  std::int32_t rank = -1;  // DP rank that served it, numbered over all instances; of two the one that decodes
  RequestState state = RequestState::kWaiting;
  bool outside = false;           // has arrived, and no scheduler may see it yet (ServingOptions::request_time)
  std::uint16_t retractions = 0;  // times that its KV memory was taken back
  std::uint16_t retries = 0;      // times that it was started anew because its rank was lost
  std::int32_t input_tokens = 0;
  std::int32_t output_tokens = 0;
  std::int32_t cached_tokens = 0;  // of the input, found in the prefix cache when it was admitted
  Ticks arrival{};
  Ticks admitted{};  // first step that worked on it began
  // When the host saw the token that ended its prefill (sim/cluster/instance.h), or that the transfer to its decode
  // instance had ended.
  Ticks first_token{};
  Ticks finished{};  // when the host saw its last token; of a failed request the moment when it failed
};

}  // namespace epsim
