// The program `epsim-calibrate`: opens the GPU where it was built for one, prints errors, picks the exit code.
#include <iostream>

#include "calibration/measure/command.h"
#include "sim/core/error.h"
#include "sim/core/interrupt.h"

#ifdef EPSIM_CUDA
#include "calibration/cuda/open_device.h"
#endif
#ifdef EPSIM_MPI
#include "calibration/mpi/open_peers.h"
#endif

namespace {

#ifdef EPSIM_CUDA

std::unique_ptr<epsim::measure::Peers> open_peers() {
#ifdef EPSIM_MPI
  return epsim::measure::open_mpi_peers();
#else
  return std::make_unique<epsim::measure::Peers>();
#endif
}

// Under mpirun the first node's process does everything, and the others take part in its collectives.
int run(const std::vector<std::string>& words, epsim::measure::CommandContext& context) {
  using namespace epsim::measure;
  const std::unique_ptr<Peers> peers = open_peers();
  if (peers->node() != 0) {
    return follow(
        *peers, [&](int gpus) { return open_cuda_member(peers->node(), gpus); }, std::cerr);
  }
  TeamLeader leader(*peers);
  context.open = [&] { return open_cuda_device(leader); };
  return calibrate(words, context, std::cout);
}

#else

int run(const std::vector<std::string>& words, epsim::measure::CommandContext& context) {
  context.open = []() -> epsim::measure::OpenedDevice {
    throw epsim::RunFailed("this program was built without CUDA; configure with -DEPSIM_CUDA=ON where nvcc is");
  };
  return calibrate(words, context, std::cout);
}

#endif

}  // namespace

int main(int argc, char** argv) {
  epsim::interrupted();  // from here on, Ctrl-C is ours
  try {
    epsim::measure::CommandContext context;
    context.interrupted = [] { return epsim::interrupted().load(); };
    return run({argv + 1, argv + argc}, context);
  } catch (const epsim::InputError& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 1;
  }
}
