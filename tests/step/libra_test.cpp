// Libra's evaluation: prefill on 8 H200 (experiments/libra). The paper's routing traces are not public, so the loads
// are the program's presets; what is held against the paper are the order and the size of the gain, not a figure.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/scenario/read_scenario.h"
#include "sim/step/policy_pricer.h"
#include "tests/support/paths.h"

using namespace epsim;

namespace {

const std::vector<std::string> kPolicies{"vanilla", "eplb_static_hot", "lina", "libra"};

Scenario experiment(const std::string& file, const std::vector<std::string>& settings,
                    const std::vector<std::string>& policies = kPolicies) {
  Config config = Config::from_file(test::source_dir() / "experiments/libra" / file);
  config.set(settings);
  return read_scenario(config, policies);
}

// Seconds that each policy needs for the same prompts.
std::map<std::string, double> seconds_by_policy(const Scenario& s) {
  std::map<std::string, double> out;
  for (const PolicyChoice& policy : s.policies) {
    const RunResult run = run_policy(s, policy, {});
    CHECK(run.completed == std::ssize(s.requests.requests));
    out[policy.label] = run.time.total.count();
  }
  return out;
}

// 32 prompts are one full step of 8 GPUs by 4 chunks and a tail.
const std::vector<std::string> kFew{"requests.count=32", "loads.steps=16", "plan_loads.steps=16"};

void check_order(std::map<std::string, double> seconds) {
  CHECK(seconds["libra"] < seconds["lina"]);
  CHECK(seconds["libra"] < seconds["eplb_static_hot"]);
  CHECK(seconds["lina"] < seconds["vanilla"]);
  CHECK(seconds["eplb_static_hot"] < seconds["vanilla"]);
}

// What the layers of a step take by part: the mean GPU's kernels, and exchanges.
class Spans final : public StepRecorder {
 public:
  void begin_step(const StepStart&) override {}
  void span(const StepSpan& s) override {
    gpu_time_[s.part] += s.lane == StepLane::kCopy ? Ticks{} : s.duration * s.gpus;
  }
  void exchange(const StepExchange&) override {}
  void end_step(Ticks, const StepCost&) override {}
  Seconds per_layer(LayerPart part, const Scenario& s) {
    return to_seconds(gpu_time_[part]) / s.model.moe_layers() / s.cluster.gpus();
  }

 private:
  std::map<LayerPart, Ticks> gpu_time_;
};

struct LayerTimes {
  Seconds experts{}, attention{}, combine{}, late{};
};

// One step of Libra with `tokens` in all.
LayerTimes libra_layer(const Scenario& s, double tokens) {
  const PolicyChoice& libra = s.policies.back();
  const PreparedInstance prepared = prepare_run(s, libra).last();
  StepModel model(s.model, s.cluster, s.parallelism, s.dispatch, prepared.placement, *s.loads, s.compute, s.network);
  PolicyPricer pricer(model, *libra.per_step, s.cluster, s.execution, libra.step_run, prepared.plan, s.plan_window,
                      s.seed);
  Spans spans;
  pricer.record_to(&spans);
  const double here = tokens / s.cluster.gpus();
  const RankBatch batch{
      .prefill_tokens = static_cast<std::int64_t>(here), .prefill_pairs = here * here / 2, .sampled = 1};
  const StepCost cost = pricer.price(0, std::vector<RankBatch>(static_cast<std::size_t>(s.cluster.gpus()), batch));
  return {spans.per_layer(LayerPart::kExperts, s),
          spans.per_layer(LayerPart::kAttention, s) + spans.per_layer(LayerPart::kGate, s),
          spans.per_layer(LayerPart::kCombine, s),
          cost.by_part[static_cast<std::size_t>(LayerPart::kPrefetch)] / s.model.moe_layers()};
}

// Every rank's tokens like the first eight experts of the next GPU best, so that each GPU brings in eight experts and
// sends out eight; the experts' totals are equal.
class NeighbourLoads final : public ExpertLoadSource {
 public:
  explicit NeighbourLoads(const MoeSpec& model) : model_(model) {}
  int layers() const override { return model_.moe_layers(); }
  int experts() const override { return model_.experts; }
  void draw(const StepAt&, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    const int gpus = static_cast<int>(tokens.size()), per_gpu = model_.experts / gpus;
    out.resize(layers(), gpus, model_.experts);
    const double rest = (model_.top_k - 8 * 0.25) / (model_.experts - 8);
    for (int l = 0; l < layers(); ++l) {
      for (int g = 0; g < gpus; ++g) {
        const std::span<float> row = out.row(l, g);
        std::fill(row.begin(), row.end(), static_cast<float>(rest));
        std::fill_n(row.begin() + (g + 1) % gpus * per_gpu, 8, 0.25F);
      }
    }
  }

 private:
  MoeSpec model_;
};

// Smallest number of tokens per step, to 128, for which `enough` holds.
template <class Enough>
double crossover(const Scenario& s, Enough enough) {
  double low = 1024, high = 65536;
  while (high - low > 128) {
    const double middle = (low + high) / 2;
    (enough(libra_layer(s, middle)) ? high : low) = middle;
  }
  return high;
}

// N = 8 experts over a port, by copy engine.
Seconds copies_of(const MoeSpec& m) { return m.expert_bytes() * 8 / BytesPerSecond(380e9); }

// The same scenario where expert products reach a stated share of the peak, whatever the rows.
Scenario at_share_of_peak(Scenario s, double share) {
  s.compute.fitted.reset();
  for (GroupedGemmCurve& curve : s.compute.grouped_gemm) {
    curve.curve.points = {{1.0, share}, {1e6, share}};
  }
  s.loads = std::make_shared<NeighbourLoads>(s.model);
  return s;
}

}  // namespace

TEST_CASE("Libra before Lina and EPLB, both before vanilla, on both models (Libra, Fig. 8)") {
  check_order(seconds_by_policy(experiment("qwen3-235b-h200.yaml", kFew)));
  check_order(seconds_by_policy(experiment("glm-4.5-h200.yaml", kFew)));
}

TEST_CASE("Libra's best case: near 10 % over the best rival, on the more skewed loads (Libra, up to 19.2 %)") {
  // 10 to 25 % would count as the paper's figure; the loads are made up, and what comes out lies at that bound.
  // Tokens of one stretch of text differ twice as much from the mean as in the preset.
  std::map<std::string, double> seconds = seconds_by_policy(
      experiment("qwen3-235b-h200.yaml", {"requests.count=160", "loads.sigma_scale=2", "plan_loads.sigma_scale=2"},
                 {"eplb_static_hot", "lina", "libra"}));
  const double rival = std::min(seconds["lina"], seconds["eplb_static_hot"]);
  CHECK(rival / seconds["libra"] > 1.09);
  CHECK(rival / seconds["libra"] < 1.25);
}

TEST_CASE("a layer's prefetch takes as long as its experts at the tokens per step that arithmetic says") {
  for (const std::string file : {"qwen3-235b-h200.yaml", "glm-4.5-h200.yaml"}) {
    CAPTURE(file);
    std::vector<std::string> settings = kFew;
    settings.insert(settings.end(),
                    {"policies.libra.n_local=8", "policies.libra.accuracy=1", "policies.libra.distortion=0"});
    const Scenario s = at_share_of_peak(experiment(file, settings), 0.6);
    const Seconds copies = copies_of(s.model);
    // 302 MB (Qwen3) or 377 MB (GLM-4.5) against a balanced layer at 60 % of 989 TF/s: 12.5 thousand tokens.
    const MoeSpec& m = s.model;
    const Flops per_token(6.0 * m.hidden * m.moe_intermediate * m.top_k / s.cluster.gpus());
    const double expected = copies / (per_token / FlopsPerSecond(0.6 * 989e12));
    CHECK(expected == doctest::Approx(12500).epsilon(0.01));
    const double experts_alone = crossover(s, [&](const LayerTimes& t) { return t.experts >= copies; });
    CHECK(experts_alone > expected * 0.8);
    CHECK(experts_alone < expected * 1.2);
    // The window is longer than the experts: attention of the next layer is in it, and the combine, beside which copies
    // have half of the port. It opens when the plan is made, 13 to 15 us and an exchange of ids after the experts have
    // begun.
    const Seconds plan = s.policies.back().step_run.planning + Seconds(11.6e-6);
    const double whole_window =
        crossover(s, [&](const LayerTimes& t) { return t.experts + t.attention + t.combine / 2 - plan >= copies; });
    const double in_time = crossover(s, [&](const LayerTimes& t) { return t.late < 0.05 * copies; });
    CHECK(in_time > whole_window * 0.8);
    CHECK(in_time < whole_window * 1.2);
    MESSAGE(file << ": experts alone " << experts_alone << " tokens, whole window " << whole_window << ", in time from "
                 << in_time);
  }
}

TEST_CASE("prefetch is late in small steps, and hidden in large ones") {
  const Scenario s = experiment("qwen3-235b-h200.yaml", kFew);
  CHECK(libra_layer(s, 2048).late > 0.2 * copies_of(s.model));
  CHECK(libra_layer(s, 32768).late < 0.03 * copies_of(s.model));
}
