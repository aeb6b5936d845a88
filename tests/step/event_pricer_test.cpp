#include "sim/step/event_pricer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/core/rng.h"
#include "tests/models/profiles.h"

using namespace epsim;

namespace {

// Drawn from the step, the same for every rank or different for each.
class RandomLoads final : public ExpertLoadSource {
 public:
  RandomLoads(int layers, int experts, int top_k, int sources, std::uint64_t key)
      : layers_(layers), experts_(experts), top_k_(top_k), sources_(sources), key_(key) {}
  int layers() const override { return layers_; }
  int experts() const override { return experts_; }
  void draw(const StepAt& at, std::span<const std::int64_t>, StepLoads& out) const override {
    out.resize(layers_, sources_, experts_);
    for (int l = 0; l < layers_; ++l) {
      for (int s = 0; s < sources_; ++s) {
        RandomStream random(Seed{key_}, "loads", static_cast<std::uint64_t>(at.number),
                            static_cast<std::uint64_t>(l * 64 + s));
        double sum = 0;
        for (float& pi : out.row(l, s)) {
          pi = static_cast<float>(0.2 + random.uniform());
          sum += static_cast<double>(pi);
        }
        for (float& pi : out.row(l, s)) {
          pi = static_cast<float>(static_cast<double>(pi) * top_k_ / sum);
        }
      }
    }
  }

 private:
  int layers_, experts_, top_k_, sources_;
  std::uint64_t key_;
};

// A model, a cluster, a placement with copies and batches, all drawn at random.
struct RandomStep {
  MoeSpec model;
  ClusterSpec cluster;
  Parallelism parallelism;
  DispatchOptions dispatch;
  std::unique_ptr<Placement> placement;
  std::unique_ptr<RandomLoads> loads;
  std::vector<RankBatch> ranks;

  explicit RandomStep(std::uint64_t i) {
    RandomStream random(Seed{11}, "random-step", i);
    draw_model(random);
    cluster.node.gpu = {"gpu", FlopsPerSecond(1e14), FlopsPerSecond(0), Bytes(80e9), BytesPerSecond(1e12), ""};
    cluster.node.gpus = 4;
    cluster.node.intra_rate = BytesPerSecond(1e11);
    cluster.node.nics = 1 + static_cast<int>(random.below(2));
    cluster.node.nic_rate = BytesPerSecond(1e10);
    cluster.nodes = 1 + static_cast<int>(random.below(3));
    parallelism = {.gpus = cluster.gpus(), .attention_tp = 1 << random.below(3)};
    parallelism.shared_experts = random.below(2) == 0 ? Sharding::kReplicated : Sharding::kTensorParallel;
    model.experts = cluster.gpus() * 2;
    dispatch.dedup = std::array{Dedup::kNone, Dedup::kGpu, Dedup::kNode}[random.below(3)];
    dispatch.exchange_counts = random.below(2) == 0;
    draw_placement(random);
    const int sources = random.below(2) == 0 ? 1 : parallelism.dp_ranks();
    loads = std::make_unique<RandomLoads>(model.moe_layers(), model.experts, model.top_k, sources, i);
    for (int r = 0; r < parallelism.dp_ranks(); ++r) {
      ranks.push_back(draw_batch(random));
    }
  }

  StepModel step_model() const {
    return {
        model,      cluster, parallelism,           dispatch,
        *placement, *loads,  test::plain_compute(), {test::plain_link(3e-6, 0.5, 4), test::plain_link(20e-6, 0.8, 8)}};
  }

 private:
  void draw_model(RandomStream& random) {
    model.name = "random";
    model.layers = 3 + static_cast<int>(random.below(6));
    model.first_dense_layers = static_cast<int>(random.below(2));
    model.moe_every = 1 + static_cast<int>(random.below(2));
    model.hidden = 512;
    model.dense_intermediate = 2048;
    model.top_k = 2;
    model.moe_intermediate = 256;
    model.shared_intermediate = random.below(2) == 0 ? 0 : 256;
    model.vocab = 2000;
    model.attention = {.kind = AttentionKind::kGqa, .heads = 8, .kv_heads = 8, .head_dim = 64};
  }
  void draw_placement(RandomStream& random) {
    PlacementPlan plan{.policy = "random", .experts = model.experts, .gpus = cluster.gpus(), .layers = {}};
    for (int l = 0; l < model.moe_layers(); ++l) {
      std::vector<int> slots;
      for (int g = 0; g < cluster.gpus(); ++g) {
        slots.push_back(2 * g);
        slots.push_back(2 * g + 1);
        int copy = static_cast<int>(random.below(static_cast<std::uint64_t>(model.experts)));
        copy = copy / 2 == g ? (copy + 2) % model.experts : copy;
        slots.push_back(copy);
      }
      plan.layers.push_back(uniform_layer(std::move(slots), cluster.gpus()));
    }
    placement =
        std::make_unique<Placement>(Placement::build(plan, shape_of(cluster), model.expert_bytes(), Bytes(1e15)));
  }
  static RankBatch draw_batch(RandomStream& random) {
    RankBatch batch;
    if (random.below(4) == 0) {
      return batch;  // idle
    }
    const auto size = [&](std::uint64_t most) { return static_cast<std::int64_t>(random.below(most)); };
    batch.prefill_tokens = random.below(2) == 0 ? 0 : size(4000);
    batch.decode_tokens = size(100);
    batch.prefill_pairs = static_cast<double>(batch.prefill_tokens) * 800.0;
    batch.prefill_context = random.below(2) == 0 ? 0.0 : 3000.0;
    batch.decode_context = static_cast<double>(batch.decode_tokens * size(3000));
    batch.sampled = batch.decode_tokens + (batch.prefill_tokens > 0 ? 1 : 0);
    return batch;
  }
};

StepCost played(const RandomStep& s, ExecutionOptions options, StepTotals* totals = nullptr, const StepAt& at = 0) {
  StepModel model = s.step_model();
  options.mode = ExecutionMode::kEvent;
  EventPricer pricer(model, options);
  const StepCost cost = pricer.price(at, s.ranks);
  if (totals != nullptr) {
    *totals = model.totals();
  }
  return cost;
}

std::int64_t picoseconds(const StepCost& cost) { return to_ticks(cost.total).count(); }

}  // namespace

TEST_CASE("without overlap a played step is the closed form, to the picosecond and part by part") {
  for (std::uint64_t i = 0; i < 120; ++i) {
    CAPTURE(i);
    const RandomStep s(i);
    StepModel model = s.step_model();
    const StepAt at(0, {}, i % 2 == 0);
    const StepCost closed = model.price(at, s.ranks);
    StepTotals totals;
    const StepCost event = played(s, {}, &totals, at);
    CHECK(picoseconds(event) == picoseconds(closed));
    for (std::size_t p = 0; p < kLayerParts; ++p) {
      CHECK(to_ticks(event.by_part[p]) == to_ticks(closed.by_part[p]));
    }
    for (std::size_t o = 0; o < kOrigins; ++o) {
      CHECK(to_ticks(event.by_origin[o]) == to_ticks(closed.by_origin[o]));
    }
    CHECK(event.straggler.count() == doctest::Approx(closed.straggler.count()).epsilon(1e-6));
    const StepTotals& same = model.totals();
    CHECK(totals.gpu_load == same.gpu_load);
    CHECK(totals.assignments_routed == same.assignments_routed);
    for (std::size_t l = 0; l < totals.layers.size(); ++l) {
      CHECK(totals.layers[l].straggler.count() == doctest::Approx(same.layers[l].straggler.count()).epsilon(1e-6));
      // A layer's waiting lies in its own parts, not in the dense layers before it.
      CHECK(totals.layers[l].straggler.count() <=
            std::accumulate(totals.layers[l].by_part.begin(), totals.layers[l].by_part.end(), Seconds{}).count() *
                (1 + 1e-9));
      CHECK(totals.layers[l].balancedness_sum == same.layers[l].balancedness_sum);
    }
  }
}

TEST_CASE("no overlap and no pairwise exchange makes a step longer, but for what an exchange takes from kernels") {
  for (std::uint64_t i = 0; i < 120; ++i) {
    CAPTURE(i);
    const RandomStep s(i);
    const std::int64_t barrier = picoseconds(played(s, {}));
    const std::int64_t shared =
        picoseconds(played(s, {.overlap = StepOverlap::kSharedExpert, .exchange_sm_share = 0.0}));
    CHECK(shared <= barrier);
    // A port's time is dealt out in whole picoseconds, one piece per sender and exchange.
    const std::int64_t rounding = 2 * s.model.moe_layers() * s.parallelism.dp_ranks();
    CHECK(picoseconds(played(s, {.sync = StepSync::kPairwise})) <= barrier + rounding);
  }
}

TEST_CASE("shared experts beside the dispatch: the longer of the two is left") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    RandomStep s(i);
    if (s.model.shared_intermediate == 0 || s.parallelism.dp_ranks() > 1) {
      continue;
    }
    StepModel model = s.step_model();
    model.begin(0, s.ranks);
    const Ticks shared = model.ranks()[0].shared.time;
    Ticks hidden{};
    for (int l = 0; l < s.model.moe_layers(); ++l) {
      const MoeLayerCost& parts = model.layer(l);
      hidden += std::min(shared, parts.counts.time + parts.dispatch.time);
    }
    CHECK(picoseconds(played(s, {.overlap = StepOverlap::kSharedExpert, .exchange_sm_share = 0.0})) ==
          picoseconds(played(s, {})) - hidden.count());
  }
}

TEST_CASE("two batches: every assignment once, and never shorter than the kernels or the exchanges of both halves") {
  for (std::uint64_t i = 0; i < 60; ++i) {
    CAPTURE(i);
    const RandomStep s(i);
    StepTotals totals;
    const StepCost cost = played(s, {.overlap = StepOverlap::kTwoBatch}, &totals);
    double executed = 0;
    std::int64_t tokens = 0;
    for (const double load : totals.gpu_load) {
      executed += load;
    }
    for (const RankBatch& batch : s.ranks) {
      tokens += batch.tokens();
    }
    CHECK(executed ==
          doctest::Approx(static_cast<double>(tokens * s.model.top_k * s.model.moe_layers())).epsilon(1e-5));
    CHECK(totals.steps == 1);
    for (const LayerTotals& layer : totals.layers) {
      CHECK(layer.balancedness_sum <= 1 + 1e-9);
    }
    StepModel model = s.step_model();
    Ticks exchanges{}, kernels{};
    for (int half = 0; half < 2; ++half) {
      std::vector<RankBatch> halves;
      for (const RankBatch& batch : s.ranks) {
        halves.push_back(half_of(batch, half));
      }
      model.begin(0, halves, 2);
      for (int l = 0; l < s.model.moe_layers(); ++l) {
        const MoeLayerCost& parts = model.layer(l);
        exchanges += parts.counts.time + parts.dispatch.time + parts.combine.time;
        kernels += to_ticks(parts.experts[0].time) + model.ranks()[0].attention.time + model.ranks()[0].gate.time +
                   model.ranks()[0].shared.time;
      }
    }
    const bool whole =
        std::any_of(s.ranks.begin(), s.ranks.end(), [](const auto& b) { return b.tokens() == 1; }) || tokens == 0;
    CHECK((whole || cost.total.count() * (1 + 1e-9) >= to_seconds(std::max(exchanges, kernels)).count()));
  }
}

TEST_CASE("two halves are the batch") {
  const RankBatch batch{.prefill_tokens = 101,
                        .decode_tokens = 7,
                        .prefill_pairs = 1000,
                        .prefill_context = 50,
                        .decode_context = 700,
                        .sampled = 9};
  const RankBatch a = half_of(batch, 0), b = half_of(batch, 1);
  CHECK(a.prefill_tokens + b.prefill_tokens == 101);
  CHECK(a.decode_tokens + b.decode_tokens == 7);
  CHECK(a.tokens() == b.tokens());
  CHECK(a.sampled + b.sampled == 9);
  CHECK(a.prefill_pairs + b.prefill_pairs == 1000);
  CHECK(a.prefill_context + b.prefill_context == 50);
  CHECK(a.decode_context + b.decode_context == 700);
}

TEST_CASE("two batches start at the scenario's number of tokens") {
  RandomStep s(3);
  s.ranks.assign(s.ranks.size(), {.decode_tokens = 100, .decode_context = 1e4, .sampled = 100});
  const StepCost whole = played(s, {});
  const auto from = [&](std::int64_t tokens) {
    return played(s, {.overlap = StepOverlap::kTwoBatch, .two_batch_min_tokens = tokens});
  };
  CHECK(picoseconds(from(101)) == picoseconds(whole));
  CHECK(from(101).batches == 1);
  CHECK(picoseconds(from(100)) != picoseconds(whole));
  CHECK(from(100).batches == 2);
}

TEST_CASE("pairwise lets a rank that is early go on: one slow rank costs less than with barriers") {
  std::int64_t barrier = 0, pairwise = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    RandomStep s(i);
    if (s.parallelism.dp_ranks() < 4) {
      continue;
    }
    s.ranks.assign(s.ranks.size(), {.decode_tokens = 64, .decode_context = 1e4, .sampled = 64});
    s.ranks[0].decode_context = 1e7;
    barrier += picoseconds(played(s, {}));
    pairwise += picoseconds(played(s, {.sync = StepSync::kPairwise}));
  }
  CHECK(pairwise < barrier);
}
