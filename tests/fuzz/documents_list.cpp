#include "tests/fuzz/targets.h"

namespace epsim::fuzz {

std::span<const Target> targets() {
  static const std::vector<Target> all = joined({document_targets(), scenario_targets()});
  return all;
}

std::span<const Target> quick_targets() { return document_targets(); }

}  // namespace epsim::fuzz
