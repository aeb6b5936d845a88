#include "sim/report/perfetto.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim {
namespace {

constexpr std::int64_t kMostSteps = 1000;

std::int64_t whole_number(const std::string& text, std::string_view digits) {
  const std::optional<std::int64_t> value = number_from<std::int64_t>(digits);
  refuse_if(!value || *value < 0, "timeline",
            fmt::format("'{}' is neither a step, as in 100, nor steps N to N + k, as in "
                        "100:3, nor slowest, slowest-prefill, slowest-decode or "
                        "slowest-mixed.",
                        text));
  return *value;
}

}  // namespace

TimelineChoice parse_timeline(const std::string& text) {
  if (text == "slowest") {
    return {.slowest = true};
  }
  for (std::size_t k = 0; k < kStepKindNames.size(); ++k) {
    if (text == fmt::format("slowest-{}", kStepKindNames[k])) {
      return {.slowest = true, .kind = static_cast<StepKind>(k)};
    }
  }
  const std::size_t colon = text.find(':');
  const std::string_view all = text;
  const std::int64_t first = whole_number(text, all.substr(0, colon));
  const std::int64_t more = colon == std::string::npos ? 0 : whole_number(text, all.substr(colon + 1));
  refuse_if(more >= kMostSteps || first > (std::int64_t{1} << 60), "timeline",
            fmt::format("at most {} steps go into a timeline.", kMostSteps));
  return {first, first + more};
}

void TimelineRecorder::begin_step(const StepStart& s) {
  const bool wanted = choice_.slowest ? !choice_.kind || kind_of(s.ranks) == *choice_.kind
                                      : s.instance == 0 && s.step >= choice_.first && s.step <= choice_.last;
  recording_ = wanted && !cut_short();
  if (recording_) {
    first_slice_ = slices_.size();
    exchanges_.clear();
    steps_.push_back(
        {s.instance, s.step, s.start, {}, 0, {s.ranks.begin(), s.ranks.end()}, {}, s.waited, s.waited_since});
  }
}

void TimelineRecorder::kv(std::span<const std::int64_t> reserved) {
  if (recording_) {
    steps_.back().kv_blocks.assign(reserved.begin(), reserved.end());
  }
}

void TimelineRecorder::span(const StepSpan& span) {
  if (!recording_) {
    return;
  }
  TimelineStep& step = steps_.back();
  step.gpus = std::max(step.gpus, span.first_gpu + span.gpus);
  for (std::int32_t g = span.first_gpu; g < span.first_gpu + span.gpus; ++g) {
    slices_.push_back({step.step, step.start + span.start, span.duration, g, span.layer, span.micro_batch, span.part,
                       span.lane, -1, -1});
  }
}

void TimelineRecorder::exchange(const StepExchange& e) {
  if (!recording_) {
    return;
  }
  Exchange bytes{e.layer, e.micro_batch, e.part, {}, {}};
  for (std::size_t g = 0; g < e.intra_out.size(); ++g) {
    bytes.sent.push_back((e.intra_out[g] + e.inter_out[g]) * e.row_bytes);
    bytes.received.push_back((e.intra_in[g] + e.inter_in[g]) * e.row_bytes);
  }
  exchanges_.push_back(std::move(bytes));
}

// What the GPUs wait for the host, all together, after the pieces that were priced.
void TimelineRecorder::add_host(const StepCost& cost) {
  const Ticks wait = to_ticks(cost.by_part[static_cast<std::size_t>(LayerPart::kHost)]);
  if (wait == Ticks{}) {
    return;
  }
  const TimelineStep& step = steps_.back();
  Ticks start = step.start;
  for (std::size_t i = first_slice_; i < slices_.size(); ++i) {
    start = std::max(start, slices_[i].start + slices_[i].duration);
  }
  const Ticks duration = std::min(wait, std::max(Ticks{}, step.start + step.length - start));
  for (std::int32_t g = 0; g < step.gpus; ++g) {
    slices_.push_back({step.step, start, duration, g, -1, 0, LayerPart::kHost, StepLane::kCpu, -1, -1});
  }
}

// Of the slowest step so far and the one that has just ended, the slower stays.
void TimelineRecorder::keep_slower() {
  const bool slower = steps_.back().length > steps_.front().length;
  const auto first = slices_.begin() + static_cast<std::ptrdiff_t>(first_slice_);
  slower ? slices_.erase(slices_.begin(), first) : slices_.erase(first, slices_.end());
  steps_.erase(slower ? steps_.begin() : steps_.end() - 1);
  first_slice_ = slower ? 0 : slices_.size();
}

void TimelineRecorder::end_step(Ticks length, const StepCost& cost) {
  if (!recording_) {
    return;
  }
  steps_.back().length = length;
  add_host(cost);
  if (choice_.slowest && steps_.size() > 1) {
    keep_slower();
  }
  for (std::size_t i = first_slice_; i < slices_.size(); ++i) {
    TimelineSlice& slice = slices_[i];
    const auto gpu = static_cast<std::size_t>(slice.gpu);
    for (const Exchange& e : exchanges_) {
      const bool same = e.layer == slice.layer && e.part == slice.part && e.micro_batch == slice.micro_batch;
      if (same && slice.lane == StepLane::kNetwork && gpu < e.sent.size()) {
        slice.sent_bytes = e.sent[gpu];
        slice.received_bytes = e.received[gpu];
      }
    }
  }
  recording_ = false;
}

}  // namespace epsim
