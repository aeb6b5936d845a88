// Requests as they arrive: what the world asks of the service.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

struct Request {
  Ticks arrival{};                 // since the start of the run
  std::int32_t input_tokens = 0;   // > 0
  std::int32_t output_tokens = 0;  // > 0; the first one comes with the end of the prefill
};

struct RequestTrace {
  std::string source;             // file or recipe, for reports
  std::vector<Request> requests;  // by arrival time

  // Throws InputError unless arrivals are in order and every request has input and output tokens.
  void validate() const;
};

}  // namespace epsim
