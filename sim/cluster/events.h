// What can happen to the instances of a run. Small values: they can be stored, compared and replayed.
#pragma once

#include <cstdint>
#include <variant>

#include "sim/core/fingerprint.h"
#include "sim/core/units.h"

namespace epsim {

// A step is over: its tokens are out and its finished requests free their KV blocks (Phase::Complete).
struct StepDone {
  std::int32_t instance;
  std::int64_t step;  // of that instance
  std::int64_t number() const { return (static_cast<std::int64_t>(instance) << 40) + step; }
};
// A request reaches the router (Phase::Arrive). Without a closed loop only the next one is ever pending.
struct RequestArrived {
  std::int32_t request;   // position in the trace
  bool answered = false;  // a turn that has waited for the answer before it
  std::int64_t number() const { return request; }
};
// The scheduler of an instance may see the request (Phase::Arrive).
struct RequestReady {
  std::int32_t request;
  std::int64_t number() const { return request; }
};
// The ranks form their batches, after everything else that happens at that time (Phase::Schedule).
struct StepDue {
  std::int32_t instance;
  std::int64_t number() const { return instance; }
};
// A prompt's keys and values have reached the instance that decodes it, and free their blocks where they came from
// (Phase::Complete).
struct KvArrived {
  std::int32_t request;
  std::int32_t attempt;  // of the request: a transfer of an earlier one is void
  std::int64_t number() const { return request; }
};

// A prompt, or a part of it, starts to leave a prefill instance for a decode instance, or has left it (Phase::Complete).
struct KvTravels {
  KvArrived prompt;
  std::int32_t to_instance, to_lane;
  bool ends;
  bool last;      // no further parts come
  double inflow;  // receiving lane's time that it takes in a second of travel
  Ticks takes;    // all of it
  std::int64_t number() const { return prompt.number(); }
};

// Hardware of an instance slows down, goes or comes back (Phase::Rebalance: a step that ends at that time has ended, the
// next one is not put together yet).
struct HardwareChanged {
  std::int32_t instance;
  std::int32_t change;  // position in its list
  std::int64_t number() const { return (static_cast<std::int64_t>(instance) << 32) + change; }
};

// A plan that is made during the run, or the weights of its next layer, are there (Phase::Rebalance).
struct WeightsArrived {
  std::int32_t instance;
  std::int64_t number() const { return instance; }
};

using ServingEvent = std::variant<StepDone, RequestArrived, StepDue, KvArrived, HardwareChanged, WeightsArrived,
                                  RequestReady, KvTravels>;

inline void add_to(Fingerprint& fingerprint, const ServingEvent& event) {
  fingerprint.add(static_cast<std::uint64_t>(event.index()));
  fingerprint.add(std::visit([](const auto& what) { return what.number(); }, event));
}

}  // namespace epsim
