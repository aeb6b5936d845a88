// The program `epsim-calibrate`: opens the GPU where it was built for one, prints errors, picks the exit code.
#include <atomic>
#include <csignal>
#include <iostream>

#include "calibration/measure/command.h"
#include "sim/core/error.h"

#ifdef EPSIM_CUDA
#include "calibration/cuda/open_device.h"
#endif

namespace {

std::atomic<bool> interrupt_flag{false};  // a signal handler can reach nothing else

extern "C" void on_interrupt(int) {
  interrupt_flag = true;
  std::signal(SIGINT, SIG_DFL);  // the second one ends the program
  std::signal(SIGTERM, SIG_DFL);
}

epsim::measure::OpenedDevice open() {
#ifdef EPSIM_CUDA
  return epsim::measure::open_cuda_device();
#else
  throw epsim::RunFailed("this program was built without CUDA; configure with -DEPSIM_CUDA=ON where nvcc is");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  try {
    epsim::measure::CommandContext context;
    context.open = open;
    context.interrupted = [] { return interrupt_flag.load(); };
    return epsim::measure::calibrate({argv + 1, argv + argc}, context, std::cout);
  } catch (const epsim::InputError& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "epsim-calibrate: " << e.what() << "\n";
    return 1;
  }
}
