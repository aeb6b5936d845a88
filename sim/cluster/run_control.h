// How a caller follows a run and cuts it short.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "sim/core/units.h"
#include "sim/domain/step_recorder.h"

namespace epsim {

struct Progress {
  Ticks now{};               // simulated time
  std::int64_t steps = 0;    // complete ones
  std::int64_t arrived = 0;  // requests
  std::int64_t completed = 0;
  std::int64_t requests = 0;  // of the trace
};

struct RunControl {
  std::function<void(const Progress&)> on_progress;  // may be empty
  std::int64_t progress_every_steps = 256;           // > 0
  // Once it is true no further step starts; what is complete is kept. May be set from a signal handler.
  const std::atomic<bool>* stop = nullptr;
  // Refuses a run (InputError, once it is over) any of whose time was priced outside what was measured.
  bool strict_calibration = false;
  // Is told of every piece of every step; null: nobody, at no cost.
  StepRecorder* recorder = nullptr;
};

}  // namespace epsim
