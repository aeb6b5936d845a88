// What the drafter of speculative decoding adds to a step, on the small step of tests/models/small_step.h: two DP ranks of
// two GPUs, one dense and two MoE layers.
#include "sim/step/drafter.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/models/small_step.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

// The first MoE layer's tokens choose all experts alike, the last one's the first two.
class TwoKindsOfLoads final : public ExpertLoadSource {
 public:
  int layers() const override { return 2; }
  int experts() const override { return 4; }
  void draw(const StepAt&, std::span<const std::int64_t>, StepLoads& out) const override {
    out.resize(2, 1, 4);
    std::ranges::fill(out.row(0, 0), 0.5F);
    std::ranges::copy(std::vector<float>{1, 1, 0, 0}, out.row(1, 0).begin());
  }
};

struct Speculation {
  explicit Speculation(int draft_tokens, bool beside_prompts = false) {
    pool.cluster = small.cluster;
    pool.parallelism = small.parallelism;
    pool.dispatch.exchange_counts = false;
    pool.serving.speculative = {
        .draft_tokens = draft_tokens, .acceptance = {0.8}, .proposes_beside_prompts = beside_prompts};
    scenario.model = small.model;
    scenario.compute = test::plain_compute();
    scenario.network = {test::plain_link(0.0, 0.5, 2), test::plain_link(0.0, 0.8, 4)};
  }

  StepCost of_model(const std::vector<RankBatch>& ranks) { return model.price({step++, {}}, ranks); }
  StepCost of_drafter(const std::vector<RankBatch>& ranks) {
    of_model(ranks);
    return drafter().price({step - 1, {}}, ranks);
  }
  Drafter& drafter() {
    if (made == nullptr) {
      made = std::make_unique<Drafter>(scenario, pool, model, placement);
    }
    return *made;
  }

  test::SmallStep small;
  Scenario scenario;
  InstancePool pool;
  Placement placement = small.placement();
  TwoKindsOfLoads loads;
  StepModel model = small.step_model(placement, loads);
  std::unique_ptr<Drafter> made;
  std::int64_t step = 0;
};

double part(const StepCost& cost, LayerPart p) { return cost.by_part[static_cast<std::size_t>(p)].count(); }

// What a layer like the last one takes for these batches, with the head. The step's first MoE layer, whose experts all
// have as much to do, is left out: 4 experts share the rows that 2 have in the last one, so that its slowest GPU computes,
// sends and gets half as much.
double last_layer_and_head(Speculation& s, const std::vector<RankBatch>& ranks) {
  const StepCost step = s.of_model(ranks);
  return part(step, LayerPart::kAttention) / 3 + part(step, LayerPart::kGate) / 2 +
         part(step, LayerPart::kExperts) * 2 / 3 + part(step, LayerPart::kOther);
}

}  // namespace

TEST_CASE("the drafter's layer is one like the model's last") {
  const MoeSpec dense_first = test::SmallStep().model.mtp_layer();
  CHECK(dense_first.layers == 1);
  CHECK(dense_first.moe_layers() == 1);
  MoeSpec sparse = test::SmallStep().model;
  sparse.attention.limited = {{AttentionReach::kSparse, 3, 2048}};
  CHECK(sparse.mtp_layer().layers_of(AttentionReach::kSparse) == 1);
  sparse.attention.limited = {{AttentionReach::kLinear, 2, 0}};  // as in Qwen3-Next, beside full attention
  CHECK(sparse.mtp_layer().layers_of(AttentionReach::kFull) == 1);
}

// eagle_worker.py: one pass to extend, speculative_num_steps - 1 to draft; a batch of prompts is extended alone.
TEST_CASE("the drafter passes as often as it proposes, and once beside SGLang's prompts") {
  SpeculativeOptions options{.draft_tokens = 3, .acceptance = {0.8}};
  CHECK(drafter_passes(options, false) == 3);
  CHECK(drafter_passes(options, true) == 1);
  options.proposes_beside_prompts = true;  // vLLM's
  CHECK(drafter_passes(options, true) == 3);
  options.drafter = DrafterKind::kNone;
  CHECK(drafter_passes(options, false) == 0);
  CHECK(drafter_passes({}, false) == 0);
}

TEST_CASE("beside a prompt the drafter takes a layer's time, its head and the product of its input") {
  Speculation s(3);
  const std::vector<RankBatch> ranks{{.prefill_tokens = 100000, .prefill_pairs = 1e9, .sampled = 2, .sequences = 2},
                                     {}};
  const StepCost drafter = s.of_drafter(ranks);
  CHECK(part(drafter, LayerPart::kDrafter) == doctest::Approx(drafter.total.count()));
  // Product: 1e5 rows x 2 x (2 x 1000) x 1000 flops at 50 TF/s = 8 ms; two norms: 1e5 x 1000 x 2 B read and written, each,
  // at 0.8 TB/s = 1 ms. Experts 0 and 1 lie on rank 0's GPUs: its rows for GPU 1 and back are 1e5 x 2000 B at half of
  // 100 GB/s = 4 ms each way.
  CHECK(drafter.total.count() == doctest::Approx(last_layer_and_head(s, ranks) + 8e-3 + 1e-3 + 2 * 2e-3).epsilon(1e-6));
}

TEST_CASE("of decodes it takes a pass over all tokens, and one over a token of each for every other proposal") {
  // 500 sequences, each with its token and two proposed; the graph has padded them to 600.
  const std::vector<RankBatch> ranks{{.decode_tokens = 1800, .decode_context = 5e5, .sampled = 1500, .sequences = 500},
                                     {.decode_tokens = 1800, .sampled = 0, .sequences = 0}};
  const std::vector<RankBatch> extend{{.decode_tokens = 1800, .decode_context = 5e5, .sampled = 500, .sequences = 500},
                                      {.decode_tokens = 1800}};
  const std::vector<RankBatch> one{{.decode_tokens = 600, .decode_context = 5e5, .sampled = 600, .sequences = 600},
                                   {.decode_tokens = 600, .sampled = 600, .sequences = 600}};
  Speculation single(1), twice(2);
  CHECK(single.of_drafter(extend).total < twice.of_drafter(ranks).total);
  const double first = single.of_drafter(extend).total.count(), other = single.of_drafter(one).total.count();
  CHECK(twice.of_drafter(ranks).total.count() == doctest::Approx(first + other).epsilon(1e-9));
}
