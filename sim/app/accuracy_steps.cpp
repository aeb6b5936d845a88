#include "sim/app/accuracy_steps.h"

#include <fmt/format.h>

#include <filesystem>

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

struct SystemName {
  std::filesystem::path scenario;
  std::string policy;
};

SystemName read_system(ConfigReader& in, const std::string& scenario_key, const std::string& policy_key) {
  return {in.path(scenario_key), in.required<std::string>(policy_key)};
}

// A scenario and one of its policies, ready to price steps in which every DP rank brings the same.
class SteadySystem {
 public:
  SteadySystem(const SystemName& name, PlanCache& plans)
      : scenario_(read_scenario(Config::from_file(name.scenario), {name.policy})),
        run_(prepare_run(scenario_, policy(), &plans)),
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

AccuracyRow read_accuracy_row(ConfigReader& in, const std::string& group, const std::string& key) {
  AccuracyRow row;
  row.group = group;
  row.what = in.required<std::string>("what");
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
CompleteRow step_row(ConfigReader in, PlanCache& plans) {
  const SystemName name = read_system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  return [name, batch, &plans, row = read_accuracy_row(in, "steps of published systems")]() mutable {
    SteadySystem system(name, plans);
    row.predicted = mean_step_ms(system, batch);
    const StepCost cost = system.price_plainly(batch);
    const auto part = [&](LayerPart p) { return to_ms(cost.by_part[static_cast<std::size_t>(p)]); };
    const double total = to_ms(cost.total), attention = part(LayerPart::kAttention),
                 experts = part(LayerPart::kExperts), dispatch = part(LayerPart::kDispatch),
                 combine = part(LayerPart::kCombine);
    row.note = fmt::format(
        "attention {:.1f}, experts {:.1f}, dispatch {:.1f}, combine {:.1f}, others {:.1f}; one after another {:.1f} "
        "ms{}{}",
        attention, experts, dispatch, combine, total - attention - experts - dispatch - combine, total,
        row.note.empty() ? "" : "; ", row.note);
    return row;
  };
}

// How much longer the same step takes in another scenario, or under another policy.
CompleteRow gain_row(ConfigReader in, PlanCache& plans) {
  const SystemName with = read_system(in, "scenario", "policy");
  const SystemName without = read_system(in, "without_scenario", "without_policy");
  const RankBatch batch = batch_of(in);
  return [with, without, batch, &plans,
          row = read_accuracy_row(in, "gains, time without over time with", "measured")]() mutable {
    SteadySystem fast_system(with, plans), slow_system(without, plans);
    const double slow = mean_step_ms(slow_system, batch), fast = mean_step_ms(fast_system, batch);
    row.predicted = slow / fast;
    row.unit = "";
    row.note = fmt::format("{:.1f} ms for {:.1f} ms{}{}", fast, slow, row.note.empty() ? "" : "; ", row.note);
    return row;
  };
}

CompleteRow loads_row(ConfigReader in, PlanCache& plans) {
  const SystemName name = read_system(in, "scenario", "policy");
  const RankBatch batch = batch_of(in);
  return [name, batch, &plans,
          row = read_accuracy_row(in, "imbalance of GPU loads, (max - mean) / mean", "measured")]() mutable {
    SteadySystem system(name, plans);
    double sum = 0;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      sum += system.imbalance(step, batch);
    }
    row.predicted = sum / kSteps;
    row.unit = "";
    return row;
  };
}

}  // namespace epsim::app
