#include "sim/core/interrupt.h"

#include <csignal>

namespace epsim {
namespace {

std::atomic<bool> interrupt_flag{false};  // a signal handler can reach nothing else

extern "C" void on_interrupt(int) {
  interrupt_flag = true;
  std::signal(SIGINT, SIG_DFL);  // the second one ends the program
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& interrupted() {
  // Armed once: asking again after the first Ctrl-C must not take the second one away.
  static const bool armed = [] {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    return true;
  }();
  static_cast<void>(armed);
  return interrupt_flag;
}

}  // namespace epsim
