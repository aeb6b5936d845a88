#include "sim/core/fingerprint.h"

#include <fmt/format.h>

namespace epsim {

std::string Fingerprint::hex() const { return fmt::format("{:016x}", state_); }

}  // namespace epsim
