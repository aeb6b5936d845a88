// The machine's GPUs as a Device of the measuring loop.
#pragma once

#include "calibration/cuda/peers.h"
#include "calibration/measure/command.h"

namespace epsim::measure {

// GPU 0 for everything but peer copies and collectives. Throws RunFailed when there is no driver or no GPU, saying why.
// The device leads `peers` in collectives, until it goes away.
OpenedDevice open_cuda_device(std::unique_ptr<Peers> peers);

// On the other nodes: takes part in collectives until the leader's device goes away.
void follow_leader(Peers& peers);

// Why there is no GPU to measure on; nullopt when there is one. Never throws.
std::optional<std::string> no_cuda_device();

}  // namespace epsim::measure
