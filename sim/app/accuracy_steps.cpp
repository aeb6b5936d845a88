#include "sim/app/accuracy_steps.h"

#include <fmt/format.h>

#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
#include "sim/step/step_prices.h"

namespace epsim::app {
namespace {

RankBatch batch_of(ConfigReader& in) {
  RankBatch batch;
  batch.prefill_tokens = in.optional<std::int64_t>("prefill_tokens", 0);
  const auto prompt = in.optional<double>("prompt", 0);
  const auto cached = in.optional<double>("cached", 0);  // tokens of each prompt ahead of the new ones
  batch.prefill_pairs = static_cast<double>(batch.prefill_tokens) * (cached + (prompt + 1) / 2);
  batch.prefill_context = prompt > 0 ? static_cast<double>(batch.prefill_tokens) / prompt * cached : 0;
  batch.decode_tokens = in.optional<std::int64_t>("decode_sequences", 0);
  batch.decode_context = static_cast<double>(batch.decode_tokens) * in.optional<double>("context", 0);
  const double prompts = prompt > 0 ? static_cast<double>(batch.prefill_tokens) / prompt : 0;
  batch.sampled = batch.decode_tokens + static_cast<std::int64_t>(prompts);
  in.check(batch.tokens() > 0, "prefill_tokens", "a step has prefill_tokens or decode_sequences.");
  return batch;
}

// A scenario and one of its policies, ready to price steps in which every DP rank brings the same.
class SteadySystem {
 public:
  SteadySystem(ConfigReader& in, const std::string& scenario_key, const std::string& policy_key)
      : scenario_(read_scenario(Config::from_file(in.path(scenario_key)), {in.required<std::string>(policy_key)})),
        run_(prepare_run(scenario_, policy())),
        prices_(scenario_, run_.last().pool, policy(), {run_.last().plan, run_.last().shares}, nullptr) {}

  const std::string& name() const { return scenario_.name; }
  StepCost price(std::int64_t step, const RankBatch& batch) { return prices_.price(step, ranks(batch)); }
  // The same pieces one after another.
  StepCost price_plainly(const RankBatch& batch) { return prices_.model().price(0, ranks(batch)); }
  // (max - mean) / mean of the GPUs' loads, mean over MoE layers, in one step.
  double imbalance(std::int64_t step, const RankBatch& batch) {
    prices_.model().begin(step, ranks(batch));
    const int layers = scenario_.model.moe_layers();
    double sum = 0;
    for (int l = 0; l < layers; ++l) {
      prices_.model().layer(l);
      sum += 1 / balancedness(prices_.model().traffic().executed) - 1;
    }
    return sum / layers;
  }

 private:
  const PolicyChoice& policy() const { return scenario_.policies.front(); }
  std::vector<RankBatch> ranks(const RankBatch& batch) const {
    return std::vector<RankBatch>(static_cast<std::size_t>(scenario_.parallelism.dp_ranks()), batch);
  }

  Scenario scenario_;
  PreparedRun run_;
  StepPrices prices_;
};

constexpr std::int64_t kSteps = 4;  // whose loads differ; a step of 58 layers is an average already

double mean_step_ms(SteadySystem& system, const RankBatch& batch) {
  double sum = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    sum += to_ms(system.price(step, batch).total);
  }
  return sum / kSteps;
}

}  // namespace

AccuracyRow read_accuracy_row(ConfigReader& in, const std::string& group, double predicted, const std::string& key) {
  AccuracyRow row;
  row.group = group;
  row.what = in.required<std::string>("what");
  row.predicted = predicted;
  row.measured = in.required<double>(key, Bound::kPositive);
  row.band = in.required<double>("band", Bound::kPositive);
  row.note = in.optional<std::string>("note", "");
  row.outside = in.optional<std::string>("outside", "");
  in.required<std::string>("source");
  in.finish();
  return row;
}

// A step of a scenario, its pieces following each other as `execution` says. The note gives the pieces' own times, what
// overlaps hides among them.
AccuracyRow step_row(ConfigReader in) {
  SteadySystem system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  AccuracyRow row = read_accuracy_row(in, "steps of published systems", mean_step_ms(system, batch));
  const StepCost cost = system.price_plainly(batch);
  const auto part = [&](LayerPart p) { return to_ms(cost.by_part[static_cast<std::size_t>(p)]); };
  const double total = to_ms(cost.total), attention = part(LayerPart::kAttention), experts = part(LayerPart::kExperts),
               dispatch = part(LayerPart::kDispatch), combine = part(LayerPart::kCombine);
  row.note = fmt::format(
      "attention {:.1f}, experts {:.1f}, dispatch {:.1f}, combine {:.1f}, others {:.1f}; one after another {:.1f} "
      "ms{}{}",
      attention, experts, dispatch, combine, total - attention - experts - dispatch - combine, total,
      row.note.empty() ? "" : "; ", row.note);
  return row;
}

// How much longer the same step takes in another scenario, or under another policy.
AccuracyRow gain_row(ConfigReader in) {
  SteadySystem with(in, "scenario", "policy"), without(in, "without_scenario", "without_policy");
  const RankBatch batch = batch_of(in);
  const double slow = mean_step_ms(without, batch), fast = mean_step_ms(with, batch);
  AccuracyRow row = read_accuracy_row(in, "gains, time without over time with", slow / fast, "measured");
  row.unit = "";
  row.note = fmt::format("{:.1f} ms for {:.1f} ms{}{}", fast, slow, row.note.empty() ? "" : "; ", row.note);
  return row;
}

AccuracyRow loads_row(ConfigReader in) {
  SteadySystem system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  double sum = 0;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    sum += system.imbalance(step, batch);
  }
  AccuracyRow row = read_accuracy_row(in, "imbalance of GPU loads, (max - mean) / mean", sum / kSteps, "measured");
  row.unit = "";
  return row;
}

}  // namespace epsim::app
