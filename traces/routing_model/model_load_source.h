// Expert loads of every step, drawn from a routing model: per step and per source rank.
//
//   Models : each rank's topics (domain, the sequences of the step, their stretches), turning as the model's
//            topic_steps and domain_steps say; then counts around the chances, with variance n pi (1 - pi) *
//            overdispersion: whole ones where they are few (count_draws.h). A rank that mixes m sequences of `topic_tokens`
//            in a step has topics whose share variance is 1 / m of one's (matched by a lognormal: Fenton 1960), and
//            every decode is a sequence of its own. Ranks have sequences of their own and share the domain as `common`.
//   Ignores: what RoutingModel ignores; that group-limited routing correlates counts within a group; repeats.
//   Cost   : about 4 ns per expert, rank and layer with 8 factors (tests/bench/trace_model.cpp); 10 of few rows.
#pragma once

#include <memory>

#include "sim/core/config.h"
#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/step_loads.h"
#include "traces/format/trace.h"
#include "traces/routing_model/routing_law.h"

namespace epsim {

struct NoisyRow;

inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 20;  // of a source in a step of whole counts

class ModelLoadSource final : public ExpertLoadSource {
 public:
  // `one_mix`: the run's ranks are one source. Streams belong to `seed`.
  ModelLoadSource(std::shared_ptr<const RoutingLaw> law, bool one_mix, Seed seed, std::int64_t hold_steps = 1);

  int layers() const override { return law_->layers(); }
  int experts() const override { return law_->experts(); }
  bool counted() const override { return StepLoads::drawn_as_counts(law_->model().overdispersion); }
  std::int64_t hold_steps() const override { return hold_steps_; }
  // A rank without tokens gets the model's mean mix.
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;
  void draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens, std::span<const std::int64_t> decodes,
                  StepLoads& out) const override;

  // The same as whole counts, [layer][source][expert]: each row sums to tokens x top-k, no count exceeds the tokens (at
  // most 2^20 of a source).
  void draw_counts(std::int64_t step, std::span<const std::int64_t> tokens, std::span<float> out) const;

 private:
  struct Mix;  // a rank's topics of one step
  // What a source brings to a step: tokens, and how many of them are decodes.
  struct Brought {
    std::int64_t tokens = 0, decodes = 0;
  };
  Mix mix_of(std::int64_t step, int source, Brought brought) const;
  float place(int layer, const Mix& mix, std::span<float> z) const;
  NoisyRow start_row(int layer, const Mix& mix, std::uint64_t key, std::span<float> values) const;
  float scale_of(const NoisyRow& row) const;
  void finish_row(const NoisyRow& row, double tokens, bool counts, std::span<float> to) const;
  void count_row(NoisyRow row, const Mix& mix, std::span<float> drawn, bool counts, std::span<float> to) const;
  void mean_row(int layer, bool counts, std::span<float> to) const;
  void draw_step(std::int64_t step, std::span<const Brought> brought, bool counts, std::span<float> out) const;

  std::shared_ptr<const RoutingLaw> law_;
  bool one_mix_;
  Seed seed_;
  std::int64_t hold_steps_;
  std::uint64_t key_;
};

// Load rows of `steps` steps from `first_step` on, the same tokens from each of `sources` ranks, into `sink` (which
// gets begin() too).
struct RowPlan {
  std::int64_t first_step = 0, steps = 1;
  int sources = 1;
  std::int64_t tokens = 4096;  // of each source and step
  bool operator==(const RowPlan&) const = default;
};
void generate_loads(const RoutingLaw& law, const RowPlan& plan, Seed seed, TraceSink& sink);
// What a trace generated from `model` says about itself.
TraceInfo trace_info_of(const RoutingModel& model, const std::string& recipe);

// The same rows added up over ranks; with `batches`, also step by step.
LoadWindow window_of_model(const std::shared_ptr<const RoutingLaw>& law, const RowPlan& plan, bool batches, Seed seed);

// Scenario sections of kind `model`. A window's draws are other ones than a run's with the same seed: plan and run see
// different stretches of one workload.
std::span<const Key> model_load_keys();
LoadWindow make_model_window(ConfigReader& in, const MoeSpec& model, Seed seed);
std::unique_ptr<ExpertLoadSource> make_model_source(ConfigReader& in, const MoeSpec& model, Seed seed);

}  // namespace epsim
