// The wish to stop: Ctrl-C or a polite kill.
#pragma once

#include <atomic>

namespace epsim {

// Set by SIGINT or SIGTERM from the first call on; a second one ends the program at once.
const std::atomic<bool>& interrupted();

}  // namespace epsim
