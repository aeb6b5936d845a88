// The command line of `epsim-calibrate`, with the device given from outside so that tests bring a simulated one.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration/measure/sweep.h"
#include "calibration/measure/sweep_plan.h"

namespace epsim::measure {

struct CalibrateOptions {
  bool list = false, machine_name = false, dry_run = false, resume = false, overwrite = false, help = false;
  SweepOptions sweep;
  std::vector<const OpSpec*> ops;   // all when --only is not given
  std::vector<std::string> models;  // names or files; the whole catalogue when --models is not given
  std::string machine;              // "": from the GPU's name
  std::filesystem::path trace;      // "": no points with rows of a trace
  int trace_layer = 0;              // MoE layer, counted from 0
};

// Throws InputError: unknown or contradictory options, unknown operators, impossible numbers.
CalibrateOptions parse_options(const std::vector<std::string>& words);
std::string usage();

// A device and what it says of itself: gpu, driver, cuda, nccl, cublas, ecc, notes.
struct OpenedDevice {
  std::unique_ptr<Device> device;
  Provenance provenance;
};
// Throws RunFailed when there is none, saying why.
using DeviceOpener = std::function<OpenedDevice()>;

struct CommandContext {
  DeviceOpener open;
  std::unique_ptr<Clock> clock = std::make_unique<SteadyClock>();
  std::function<bool()> interrupted = [] { return false; };
};

// Returns the exit code: 0 done, or out of time with everything kept; 1 when no point could be measured; 130
// interrupted. Throws InputError and RunFailed.
int calibrate(const std::vector<std::string>& words, const CommandContext& context, std::ostream& out);

}  // namespace epsim::measure
