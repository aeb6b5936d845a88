#include "tests/fuzz/targets.h"

namespace epsim::fuzz {

std::span<const Target> targets() {
  static const std::vector<Target> all = joined({import_targets(), trace_targets(), request_targets()});
  return all;
}

std::span<const Target> quick_targets() { return request_targets(); }

}  // namespace epsim::fuzz
