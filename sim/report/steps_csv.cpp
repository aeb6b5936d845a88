#include "sim/report/steps_csv.h"

#include <algorithm>
#include <functional>

#include "sim/report/format.h"

namespace epsim {

StepsCsv::StepsCsv(std::ostream& out)
    : csv_(out, part_columns(
                    {"instance", "step", "start_s", "step_kind", "prompt_tokens", "decode_tokens", "sequences"}, "us",
                    {"total_us", "straggler_us", "slowest_gpu", "slowest_gpu_compute_us", "slowest_link",
                     "slowest_link_us"})) {}

void StepsCsv::begin_step(const StepStart& s) {
  std::int64_t prompt_tokens = 0, decode_tokens = 0, sequences = 0;
  for (const RankBatch& batch : s.ranks) {
    prompt_tokens += batch.prefill_tokens;
    decode_tokens += batch.decode_tokens;
    sequences += batch.sequences;
  }
  csv_.integer(s.instance).integer(s.step).raw(exact_seconds(s.start));
  csv_.text(kStepKindNames[static_cast<std::size_t>(kind_of(s.ranks))]);
  csv_.integer(prompt_tokens).integer(decode_tokens).integer(sequences);
  waited_ = s.waited;
  computes_.clear();
  awaited_.clear();
}

void StepsCsv::span(const StepSpan& s) {
  if (s.lane != StepLane::kCompute) {
    return;
  }
  const auto first = static_cast<std::size_t>(s.first_gpu), end = first + static_cast<std::size_t>(s.gpus);
  computes_.resize(std::max(computes_.size(), end));
  for (std::size_t g = first; g < end; ++g) {
    computes_[g] += s.duration;
  }
}

void StepsCsv::exchange(const StepExchange& e) {
  if (!e.slowest_link.empty()) {
    auto place = awaited_.find(e.slowest_link);
    if (place == awaited_.end()) {
      place = awaited_.emplace(e.slowest_link, Ticks{}).first;
    }
    place->second += e.duration;
  }
}

void StepsCsv::end_step(Ticks, const StepCost& own) {
  StepCost cost = waited_;
  add_cost(cost, own);
  for (const Seconds part : cost.by_part) {
    csv_.number(to_us(part));
  }
  csv_.number(to_us(cost.total)).number(to_us(cost.straggler));
  const auto gpu = std::max_element(computes_.begin(), computes_.end());
  csv_.integer_if(gpu != computes_.end(), gpu - computes_.begin());
  csv_.number(gpu != computes_.end() ? to_us(to_seconds(*gpu)) : kUndefined);
  const auto link = std::max_element(awaited_.begin(), awaited_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  csv_.text(link != awaited_.end() ? link->first : "");
  csv_.number(link != awaited_.end() ? to_us(to_seconds(link->second)) : kUndefined);
  csv_.end_row();
}

}  // namespace epsim
