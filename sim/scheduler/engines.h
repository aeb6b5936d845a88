// Makes the scheduler of an engine.
#pragma once

#include <memory>

#include "sim/scenario/serving_options.h"
#include "sim/scheduler/scheduler.h"

namespace epsim {

std::unique_ptr<Scheduler> make_scheduler(const ServingOptions& options, const SchedulerSeat& seat);

}  // namespace epsim
