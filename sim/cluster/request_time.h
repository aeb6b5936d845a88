// The integral over time of the number of requests in the system, exact in integers: request-picoseconds of a long run
// pass 2^63 (100,000 requests of 100 s each come to 1e19), so that it takes 128 bits.
#pragma once

#include <cstdint>

#include "sim/core/units.h"

namespace epsim {

__extension__ using RequestTicks = __int128;

class RequestTimeIntegral {
 public:
  // To be called before the number changes at `now`, or to bring the integral up to date.
  void advance(Ticks now) {
    sum_ += static_cast<RequestTicks>((now - last_).count()) * in_system_;
    last_ = now;
  }
  void arrived() { ++in_system_; }
  void left(std::int64_t count) { in_system_ -= count; }
  std::int64_t in_system() const { return in_system_; }
  RequestTicks sum() const { return sum_; }

 private:
  RequestTicks sum_ = 0;
  std::int64_t in_system_ = 0;
  Ticks last_{};
};

}  // namespace epsim
