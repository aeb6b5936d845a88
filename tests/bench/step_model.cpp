// The main job's bar: 3000 steps x 58 layers x 64 GPUs with per-layer, per-GPU detail, loads drawn anew in every step.
//   bench_step_model          the bars on one core, for Args({64, 3000}): prefill and decode 0.3 s, played event by
//                             event 1.5 s; time grows in proportion to steps and GPUs
#include "models/step/step_model.h"

#include <benchmark/benchmark.h>

#include <algorithm>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/step/event_pricer.h"
#include "traces/expert_loads/window_load_source.h"

namespace epsim {
namespace {

// A smooth skew over the experts, hottest 8 times the mean at expert 0, in every layer.
LoadWindow skewed(const MoeSpec& model) {
  LoadWindow window(model.moe_layers(), model.experts);
  for (int l = 0; l < window.layers(); ++l) {
    double rank = 1;
    for (double& load : window.layer(l)) {
      load = 1e6 / (rank + 3.0);
      rank += 1;
    }
  }
  return window;
}

PlacementPlan one_copy_per_gpu(const MoeSpec& model, int gpus) {
  PlacementPlan plan{.policy = "bench", .experts = model.experts, .gpus = gpus, .layers = {}};
  const int per_gpu = std::max(1, model.experts / gpus);
  for (int l = 0; l < model.moe_layers(); ++l) {
    std::vector<int> slots;
    for (int g = 0; g < gpus; ++g) {
      for (int i = 0; i < per_gpu; ++i) {
        slots.push_back((g * per_gpu + i) % model.experts);
      }
      slots.push_back(g % 16);
    }
    plan.layers.push_back(uniform_layer(std::move(slots), gpus));
  }
  return plan;
}

// Every GPU has one copy of each expert that it always uses, as with static or topology-aware replica choice.
std::vector<SourceShares> own_copies(const PlacementPlan& plan) {
  std::vector<SourceShares> out;
  for (const LayerPlan& layer : plan.layers) {
    std::vector<std::vector<std::size_t>> copies(static_cast<std::size_t>(plan.experts));
    for (std::size_t slot = 0; slot < layer.slots.size(); ++slot) {
      copies[static_cast<std::size_t>(layer.slots[slot])].push_back(slot);
    }
    SourceShares shares{.gpus_per_source = 1, .share = {}};
    shares.share.assign(layer.slots.size() * static_cast<std::size_t>(plan.gpus), 0.0F);
    for (std::size_t g = 0; g < static_cast<std::size_t>(plan.gpus); ++g) {
      for (const std::vector<std::size_t>& slots : copies) {
        shares.share[g * layer.slots.size() + slots[g % slots.size()]] = 1.0F;
      }
    }
    out.push_back(std::move(shares));
  }
  return out;
}

enum class How { kClosedForm, kBySource, kEvents };

void run(benchmark::State& state, RankBatch batch, How how = How::kClosedForm) {
  const MoeSpec model = find_model("deepseek-r1");
  const NodeEntry node = find_node("p4de.24xlarge");
  const ClusterSpec cluster{.node = node.spec, .nodes = static_cast<int>(state.range(0)) / node.spec.gpus};
  const Parallelism parallelism{.gpus = cluster.gpus(), .attention_tp = 8};
  const PlacementPlan plan = one_copy_per_gpu(model, cluster.gpus());
  const Placement placement = Placement::build(plan, shape_of(cluster), Bytes(1), Bytes(1e9),
                                               how == How::kBySource ? own_copies(plan) : std::vector<SourceShares>{});
  const WindowLoadSource loads(skewed(model), model.top_k, 1.0, Seed{1});
  const std::vector<RankBatch> ranks(static_cast<std::size_t>(parallelism.dp_ranks()), batch);
  for (auto _ : state) {
    StepModel closed(model, cluster, parallelism, {}, placement, loads, node.compute, node.network);
    EventPricer played(closed, {.mode = ExecutionMode::kEvent});
    StepPricer& pricer = how == How::kEvents ? static_cast<StepPricer&>(played) : closed;
    double total = 0;
    for (std::int64_t step = 0; step < state.range(1); ++step) {
      total += pricer.price(step, ranks).total.count();
    }
    benchmark::DoNotOptimize(total);
  }
  state.counters["us_per_layer"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(1) * model.moe_layers()) * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

constexpr RankBatch kPrefill{
    .prefill_tokens = 4000, .decode_tokens = 80, .prefill_pairs = 8e6, .decode_context = 3e5, .sampled = 81};

void prefill(benchmark::State& state) { run(state, kPrefill); }
// Copies that serve some sources more than others: one pass per source GPU instead of one in all.
void prefill_by_source(benchmark::State& state) { run(state, kPrefill, How::kBySource); }
void decode(benchmark::State& state) { run(state, {.decode_tokens = 80, .decode_context = 3e5, .sampled = 80}); }

void events(benchmark::State& state) { run(state, kPrefill, How::kEvents); }

BENCHMARK(prefill)
    ->Args({64, 3000})
    ->Args({64, 1500})
    ->Args({128, 1500})
    ->Args({256, 300})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(prefill_by_source)->Args({64, 3000})->Unit(benchmark::kMillisecond);
BENCHMARK(decode)->Args({64, 3000})->Unit(benchmark::kMillisecond);

BENCHMARK(events)
    ->Args({64, 3000})
    ->Args({128, 1500})
    ->Args({256, 300})
    ->Args({1024, 75})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
