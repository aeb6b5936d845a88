// What a run looks like over time, in stretches of equal length: at most 256 of them, however long the run is.
//
// A run of unknown length is sampled exactly: stretches begin at 1/1024 s, and whenever the run passes the last of
// them, neighbours are merged and stretches are twice as long. Memory is constant, and an event costs a few additions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/run_result.h"
#include "sim/core/units.h"

namespace epsim {

class SeriesRecorder {
 public:
  static constexpr std::size_t kMostStretches = 256;  // even

  // What holds between two events.
  struct Levels {
    std::int64_t running = 0, queued = 0, kv_blocks = 0, stepping_gpus = 0;
  };
  // `levels` held from the last call until `now`, and `tokens` were handed out by `now`, at its very end.
  void advance(Ticks now, const Levels& levels);
  void hand_out(std::int64_t tokens) { current().output_tokens += tokens; }

  // The run has ended at `end`; `kv_blocks` is the size of the pools that `levels` counts the use of. First tokens and
  // their TTFT come from the records.
  RunSeries finish(Ticks end, std::int64_t kv_blocks, std::span<const RequestRecord> requests);

 private:
  struct Stretch {
    double running = 0, queued = 0, kv_blocks = 0, stepping_gpus = 0;  // x seconds
    std::int64_t output_tokens = 0, first_tokens = 0;
    Seconds ttft{};  // sum over first tokens
  };
  // The stretch that holds `at`: each includes its end, so that a step's tokens count where the step ran.
  std::size_t stretch_of(Ticks at) const;
  Stretch& current() { return stretches_[stretch_of(last_)]; }
  void cover(Ticks at);

  Ticks width_{1'000'000'000'000 / 1024};
  Ticks last_{};
  std::vector<Stretch> stretches_ = std::vector<Stretch>(1);
};

// Share of the time from `from` to `to` in which a GPU runs steps, on average over so many; stretches that are cut count in
// part.
double stepping_share(const RunSeries& series, int gpus, Ticks from, Ticks to);

}  // namespace epsim
