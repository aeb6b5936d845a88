// What `epsim-calibrate` leaves of a fake device, in simulated time.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "calibration/measure/command.h"
#include "tests/calibration/fake_device.h"

namespace epsim::test {

// A clock that somebody else moves.
struct SharedClock : measure::Clock {
  explicit SharedClock(const FakeClock& of) : clock(of) {}
  Seconds now() const override { return clock.now(); }
  const FakeClock& clock;
};

// Points of a node of `gpus` devices of 204.8 TF/s, 1 TB/s and 2 us a launch whose kernels take `slower` times as long.
// Returns the exit code; `words` are options of epsim-calibrate beside --output.
inline int measure_fake(std::vector<std::string> words, const std::filesystem::path& points, double slower = 1,
                        int gpus = 1) {
  FakeClock clock;
  measure::CommandContext context;
  context.open = [&] {
    auto device = std::make_unique<FakeDevice>(clock);
    device->ways[0].slower = slower;
    device->machine.gpus = gpus;
    Provenance provenance;
    provenance.gpu = device->machine.name;
    return measure::OpenedDevice{std::move(device), provenance};
  };
  context.clock = std::make_unique<SharedClock>(clock);
  words.insert(words.end(), {"--output", points.string()});
  std::ostringstream out;
  return measure::calibrate(words, context, out);
}

}  // namespace epsim::test
