// The machine's GPUs as a Device of the measuring loop.
#pragma once

#include "calibration/measure/command.h"
#include "calibration/measure/team.h"

namespace epsim::measure {

// GPU 0 for everything but peer copies and collectives, which `leader`'s nodes take part in. Throws RunFailed when
// there is no driver or no GPU, here or on another node, saying why. `leader` must outlive the device.
OpenedDevice open_cuda_device(TeamLeader& leader);

// Another node's part in collectives: what follow() asks for. Throws RunFailed where it cannot take part.
std::unique_ptr<TeamMember> open_cuda_member(int node, int leader_gpus);

// Why there is no GPU to measure on; nullopt when there is one. Never throws.
std::optional<std::string> no_cuda_device();

}  // namespace epsim::measure
