// A few steps of a run as a trace that ui.perfetto.dev and chrome://tracing open.
//
//   process "steps"      a slice per step, and before it one per thing that it waited for (planning, migration)
//   process per DP rank  counters: tokens of its batch, KV blocks that it has reserved; tracks of its GPUs
//   track per GPU        one for each thing that it keeps busy (compute, network, copy, CPU) and, where pieces run
//                        beside each other, for each of those; a slice per layer part
//   flow "dispatch"      from what a GPU computes before a dispatch, through the dispatch, to its experts
//
//   Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
//   Valid : what a pricer tells its recorder. Exchanges are known by GPU, not by pair of GPUs, so a flow stays on its
//   GPU.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/domain/step_recorder.h"

namespace epsim {

// What a timeline shows: steps first .. last of the first instance, both included; or the slowest step of all
// instances, of one kind or of any.
struct TimelineChoice {
  std::int64_t first = 0, last = 0;
  bool slowest = false;
  std::optional<StepKind> kind = {};
};

// "N" is step N, "N:k" are steps N to N + k; "slowest", "slowest-prefill", "slowest-decode", "slowest-mixed". Throws
// InputError.
TimelineChoice parse_timeline(const std::string& text);

struct TimelineSlice {
  std::int64_t step = 0;
  Ticks start{}, duration{};  // from the start of the run
  std::int32_t gpu = 0, layer = -1, micro_batch = 0;
  LayerPart part = LayerPart::kOther;
  StepLane lane = StepLane::kCompute;
  double sent_bytes = -1, received_bytes = -1;  // of dispatch and combine: all that the layer exchanges; -1 = not known
};

struct TimelineStep {
  std::int32_t instance = 0;
  std::int64_t step = 0;
  Ticks start{}, length{};
  int gpus = 0;  // of the instance
  std::vector<RankBatch> ranks;
  std::vector<std::int64_t> kv_blocks;  // reserved, by rank
  StepCost waited{};
  Ticks waited_since{};
};

class TimelineRecorder final : public StepRecorder {
 public:
  // A run of thousands of GPUs could fill any memory: recording of several steps ends with the one that passes this
  // many slices. Of the slowest step, the slowest one so far is kept, the first of several equal ones.
  static constexpr std::size_t kMostSlices = 500'000;

  explicit TimelineRecorder(TimelineChoice choice) : choice_(choice) {}

  void begin_step(const StepStart& start) override;
  void kv(std::span<const std::int64_t> reserved) override;
  void span(const StepSpan& span) override;
  void exchange(const StepExchange& exchange) override;
  void end_step(Ticks length, const StepCost& cost) override;

  const TimelineChoice& choice() const { return choice_; }
  const std::vector<TimelineStep>& steps() const { return steps_; }
  const std::vector<TimelineSlice>& slices() const { return slices_; }  // of complete steps
  bool cut_short() const { return !choice_.slowest && slices_.size() >= kMostSlices; }

 private:
  struct Exchange {
    std::int32_t layer, micro_batch;
    LayerPart part;
    std::vector<double> sent, received;  // [GPU] bytes
  };

  void add_host(const StepCost& cost);
  void keep_slower();

  TimelineChoice choice_;
  bool recording_ = false;
  std::size_t first_slice_ = 0;  // of the step that is going on
  std::vector<TimelineStep> steps_;
  std::vector<TimelineSlice> slices_;
  std::vector<Exchange> exchanges_;  // of the step that is going on
};

// The trace as JSON: metadata, then events by time. `label` names the run. Equal arguments give equal bytes.
void write_timeline(std::ostream& out, const TimelineRecorder& recorder, const std::string& label);

}  // namespace epsim
