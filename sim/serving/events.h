// What can happen to an instance. Small values: they can be stored, compared and replayed.
#pragma once

#include <cstdint>
#include <variant>

#include "sim/core/fingerprint.h"

namespace epsim {

// A step is over: its tokens are out and its finished requests free their KV blocks (Phase::Complete).
struct StepDone {
  std::int64_t step;
  std::int64_t number() const { return step; }
};
// A request reaches the router (Phase::Arrive). Only the next one is ever pending.
struct RequestArrived {
  std::int32_t request;  // position in the trace
  std::int64_t number() const { return request; }
};
// The ranks form their batches, after everything else that happens at that time (Phase::Schedule).
struct StepDue {
  std::int64_t number() const { return 0; }
};

using ServingEvent = std::variant<StepDone, RequestArrived, StepDue>;

inline void add_to(Fingerprint& fingerprint, const ServingEvent& event) {
  fingerprint.add(static_cast<std::uint64_t>(event.index()));
  fingerprint.add(std::visit([](const auto& what) { return what.number(); }, event));
}

}  // namespace epsim
