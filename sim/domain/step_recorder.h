// What happens inside a step, piece by piece, for whoever wants to draw it (a timeline, a test).
//
// A run hands a recorder to the pricer of its steps; a pricer without one pays for a test of a pointer. For every step
// the calls come in this order: begin_step(), then span() and exchange() in no particular order, then end_step(). Times
// inside a step count from its start. Steps of several instances come one after another, in the order in which they
// begin.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/units.h"
#include "sim/domain/step.h"

namespace epsim {

// What a piece keeps busy.
enum class StepLane : std::uint8_t { kCompute, kNetwork, kCopy, kCpu };
inline constexpr std::array<std::string_view, 4> kStepLaneNames = {"compute", "network", "copy", "cpu"};

// One piece of a step on consecutive GPUs that work on it together: a DP rank's attention, a GPU's experts, a
// collective of all GPUs.
struct StepSpan {
  std::int32_t layer = -1;  // in the model, dense layers counted; -1 = after the last layer
  LayerPart part = LayerPart::kOther;
  StepLane lane = StepLane::kCompute;
  std::int32_t micro_batch = 0;  // 1: the second half of a step that runs as two batches
  std::int32_t first_gpu = 0, gpus = 0;
  Ticks start{}, duration{};
};

// The exchange of tokens of one MoE layer: what every GPU sends and receives over its port inside the node and through
// its NIC, in bytes. The spans hold one number per GPU and are valid during the call only.
struct StepExchange {
  std::int32_t layer = 0;
  LayerPart part = LayerPart::kDispatch;  // or kCombine
  std::int32_t micro_batch = 0;
  double row_bytes = 0;  // the rows below times this are bytes
  std::span<const double> intra_out, intra_in, inter_out, inter_in;
  std::string_view slowest_link = {};  // that set the time of the exchange; empty where nothing moved
  Ticks duration{};                    // without the exchange of counts
};

// A step that begins now.
struct StepStart {
  std::int32_t instance = 0;
  std::int64_t step = 0;  // of that instance
  Ticks start{};          // from the start of the run
  std::span<const RankBatch> ranks;
  StepCost waited = {};     // for a plan or for weights
  Ticks waited_since = {};  // without a break; up to `start`, or to a loss or return of GPUs that cut it short
};

class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  virtual void begin_step(const StepStart& start) = 0;
  // KV blocks that each DP rank has reserved while the step runs; told after begin_step() by whoever has a KV pool.
  virtual void kv(std::span<const std::int64_t> reserved) { static_cast<void>(reserved); }
  virtual void span(const StepSpan& span) = 0;
  virtual void exchange(const StepExchange& exchange) = 0;
  // The step's length and cost, the scenario's declared gap and the host's time included, without what it waited for.
  virtual void end_step(Ticks length, const StepCost& cost) = 0;
};

// Several recorders of one run, each told of everything. They outlive it.
class StepRecorders final : public StepRecorder {
 public:
  void add(StepRecorder& recorder) { all_.push_back(&recorder); }
  bool empty() const { return all_.empty(); }
  void begin_step(const StepStart& start) override {
    tell([&](StepRecorder& r) { r.begin_step(start); });
  }
  void kv(std::span<const std::int64_t> reserved) override {
    tell([&](StepRecorder& r) { r.kv(reserved); });
  }
  void span(const StepSpan& span) override {
    tell([&](StepRecorder& r) { r.span(span); });
  }
  void exchange(const StepExchange& exchange) override {
    tell([&](StepRecorder& r) { r.exchange(exchange); });
  }
  void end_step(Ticks length, const StepCost& cost) override {
    tell([&](StepRecorder& r) { r.end_step(length, cost); });
  }

 private:
  template <class What>
  void tell(What what) {
    for (StepRecorder* recorder : all_) {
      what(*recorder);
    }
  }
  std::vector<StepRecorder*> all_;
};

}  // namespace epsim
