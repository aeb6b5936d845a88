// The machine's GPUs as a Device of the measuring loop.
#pragma once

#include "calibration/measure/command.h"

namespace epsim::measure {

// GPU 0 for everything but peer copies and collectives. Throws RunFailed when there is no driver or no GPU, saying why.
OpenedDevice open_cuda_device();

// Why there is no GPU to measure on; nullopt when there is one. Never throws.
std::optional<std::string> no_cuda_device();

}  // namespace epsim::measure
