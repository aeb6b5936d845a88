#include "calibration/measure/point.h"

#include <fmt/format.h>

#include "sim/core/check.h"

namespace epsim::measure {

std::string PlannedPoint::key() const {
  std::string text(op->name);
  for (std::size_t c = 0; c < values.size(); ++c) {
    text += fmt::format(" {}={:.17g}", op->columns[c], values[c]);
  }
  return text;
}

std::string_view name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kOutOfMemory:
      return "out of memory";
    case FailureKind::kLaunch:
      return "launch failed";
    case FailureKind::kWrongResult:
      return "wrong result";
    case FailureKind::kUnsupported:
      return "not supported";
  }
  EPSIM_CHECK(false, "every failure has a name");
}

}  // namespace epsim::measure
