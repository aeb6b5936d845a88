// The program `epsim-calibrate`: opens the GPU where it was built for one, prints errors, picks the exit code.
#include <iostream>

#include "calibration/measure/command.h"
#include "sim/core/error.h"
#include "sim/core/interrupt.h"

#ifdef EPSIM_CUDA
#include "calibration/cuda/open_device.h"
#endif

namespace {

int run(const std::vector<std::string>& words) {
  epsim::measure::CommandContext context;
  context.interrupted = [] { return epsim::interrupted().load(); };
#ifdef EPSIM_CUDA
  std::unique_ptr<epsim::measure::Peers> peers = epsim::measure::open_peers();
  if (peers->node() != 0) {
    epsim::measure::follow_leader(*peers);
    return 0;
  }
  context.open = [&] { return epsim::measure::open_cuda_device(std::move(peers)); };
#else
  context.open = []() -> epsim::measure::OpenedDevice {
    throw epsim::RunFailed("this program was built without CUDA; configure with -DEPSIM_CUDA=ON where nvcc is");
  };
#endif
  return epsim::measure::calibrate(words, context, std::cout);
}

}  // namespace

int main(int argc, char** argv) {
  epsim::interrupted();  // from here on, Ctrl-C is ours
  try {
    return run({argv + 1, argv + argc});
  } catch (const epsim::InputError& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 1;
  }
}
