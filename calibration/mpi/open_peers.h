// The nodes of a run under mpirun.
#pragma once

#include <memory>

#include "calibration/measure/peers.h"

namespace epsim::measure {

enum class HostRule { kOneProcessEach, kAny };  // kAny is for tests: every process plays a node

// Started by mpirun, the processes of MPI_COMM_WORLD; else this process alone. Throws RunFailed on all of them when two
// share a host and may not: one process drives all GPUs of its node.
std::unique_ptr<Peers> open_mpi_peers(HostRule rule = HostRule::kOneProcessEach);

}  // namespace epsim::measure
