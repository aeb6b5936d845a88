// Prices steps whose kernels and exchanges overlap, or wait for each other pairwise: the model's own costs, played
// (step_player.h). Without overlap and with barriers it agrees with StepModel::price to the picosecond.
#pragma once

#include <memory>
#include <vector>

#include "models/step/step_model.h"
#include "sim/scenario/execution_options.h"
#include "sim/step/pairwise_exchange.h"
#include "sim/step/step_player.h"

namespace epsim {

class EventPricer final : public StepPricer {
 public:
  // Keeps a reference to `model`, whose stats it fills.
  EventPricer(StepModel& model, const ExecutionOptions& options);

  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override;
  void set_conditions(const StepConditions& conditions) override { model_.set_conditions(conditions); }
  void record_to(StepRecorder* recorder) { recorder_ = recorder; }

 private:
  StepPlayer& player_for(std::span<const RankBatch> ranks);
  void fill(StepPlayer& player, int batch, const StepAt& at, std::span<const RankBatch> ranks);

  StepModel& model_;
  ExecutionOptions options_;
  std::unique_ptr<StepPlayer> whole_, halves_;
  std::unique_ptr<StepPlayer> decode_halves_;  // of steps without prompts
  StepRecorder* recorder_ = nullptr;
  // Scratch of one step.
  std::vector<RankBatch> half_;
  std::vector<RankCost> full_;    // of the undivided batch: the head
  std::vector<TickCost> shared_;  // [DP rank]
  PairwiseExchange ports_;
};

// The two halves of a batch, as if it were divided between sequences: equal tokens but for one, and each half of the
// attention.
RankBatch half_of(const RankBatch& batch, int half);

}  // namespace epsim
