#include "sim/scheduler/engines.h"

#include "sim/scheduler/sglang.h"
#include "sim/scheduler/vllm.h"

namespace epsim {

std::unique_ptr<Scheduler> make_scheduler(const ServingOptions& options, const SchedulerSeat& seat) {
  if (options.loop == SchedulerLoop::kSglang) {
    return std::make_unique<SglangScheduler>(options, seat);
  }
  return std::make_unique<VllmScheduler>(options, seat);
}

}  // namespace epsim
