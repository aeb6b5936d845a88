// Measures one point: prepare, check every kernel against the reference, warm up, repeat until the stop rule is
// content.
#pragma once

#include "calibration/measure/device.h"

namespace epsim::measure {

// A kernel that fails, or whose outputs are wrong, is not timed; the point fails only when no kernel is left. Never
// throws MeasureFailed: what went wrong is in the result. Other exceptions pass.
PointResult measure_point(Device& device, const Clock& clock, const PlannedPoint& point, const StopRule& rule);

}  // namespace epsim::measure
