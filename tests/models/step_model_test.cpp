#include "models/step/step_model.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/models/small_step.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

using Bench = test::SmallStep;
using test::FixedLoads;

StepCost price(const Bench& b, const Placement& placement, const ExpertLoadSource& loads, std::vector<RankBatch> ranks,
               StepTotals* totals = nullptr) {
  StepModel model = b.step_model(placement, loads);
  const StepCost cost = model.price(0, ranks);
  if (totals != nullptr) {
    *totals = model.totals();
  }
  return cost;
}

// Loads that turn by one expert every `turn` steps, and say that they are held so long, or do not.
class TurningLoads final : public ExpertLoadSource {
 public:
  TurningLoads(std::int64_t turn, bool held) : turn_(turn), held_(held) {}
  int layers() const override { return 2; }
  int experts() const override { return 4; }
  std::int64_t hold_steps() const override { return held_ ? turn_ : 1; }
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    ++draws;
    FixedLoads(2, {1.0F, 0.5F, 0.25F, 0.25F}).draw(at, tokens, out);
    for (int l = 0; l < 2; ++l) {
      std::ranges::rotate(out.row(l, 0), out.row(l, 0).begin() + at.number / turn_ % 4);
    }
  }
  mutable int draws = 0;

 private:
  std::int64_t turn_;
  bool held_;
};

double of(const StepCost& cost, LayerPart part) { return cost.by_part[static_cast<std::size_t>(part)].count(); }

}  // namespace

// The same layers without experts, on one node of two GPUs.
TEST_CASE("a dense model's step, worked out by hand") {
  Bench b;
  b.model.first_dense_layers = 3;
  b.model.experts = b.model.top_k = b.model.moe_intermediate = 0;
  b.model.validate();
  b.cluster.nodes = 1;
  b.parallelism = {.gpus = 2, .attention_tp = 2};
  b.plan = {.policy = "test", .experts = 0, .gpus = 2, .layers = {}};
  StepTotals totals;
  const FixedLoads none(0, {});
  const std::vector<RankBatch> prompt{{.prefill_tokens = 100000, .prefill_pairs = 1e9, .sampled = 3}};
  const StepCost cost = price(b, b.placement(), none, prompt, &totals);
  // Below: a dense FFN takes 24 + 1.5 ms and its two collectives 2 x 2 ms, here in each of three layers.
  CHECK(of(cost, LayerPart::kDense) == doctest::Approx(3 * (0.024 + 1.5e-3 + 2 * 2e-3)).epsilon(1e-6));
  CHECK(of(cost, LayerPart::kOther) == doctest::Approx(2.5e-6 + 24e3 / 0.8e12).epsilon(1e-6));
  for (const LayerPart part : {LayerPart::kGate, LayerPart::kDispatch, LayerPart::kExperts, LayerPart::kCombine}) {
    CHECK(of(cost, part) == 0);
  }
  CHECK(totals.layers.empty());
  CHECK(totals.assignments_routed == 0);
  // Attention of three layers: a third of it is one layer's, as the MoE model prices it.
  const Bench moe;
  const StepCost with_experts = price(moe, moe.placement(), FixedLoads(2, {1.0F, 0.5F, 0.25F, 0.25F}), {prompt[0], {}});
  CHECK(of(cost, LayerPart::kAttention) == doctest::Approx(of(with_experts, LayerPart::kAttention)).epsilon(1e-9));
}

TEST_CASE("expert, dispatch and head times of a small step, worked out by hand") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  StepTotals totals;
  const std::vector<RankBatch> ranks{{.prefill_tokens = 100000, .prefill_pairs = 1e9, .sampled = 3}, {}};
  const StepCost cost = price(b, placement, loads, ranks, &totals);
  // GPU 0 executes 100000 rows x 6 x 1000 x 500 flops = 3e11 at 50 TF/s = 6 ms, in each of two layers.
  CHECK(of(cost, LayerPart::kExperts) == doctest::Approx(2 * 3e11 / 50e12).epsilon(1e-6));
  // Rank 0's tokens lie on GPUs 0 and 1 of node 0. Node 1's GPUs 2 and 3 get a quarter each: node 0's NIC sends
  // 50000 rows of 2000 B = 100 MB at 10 GB/s = 10 ms / 0.8; inside, GPU 1 sends 50000 rows = 1 ms / 0.5: the NIC is
  // slower. Both layers, and combine brings the same back.
  CHECK(of(cost, LayerPart::kDispatch) == doctest::Approx(2 * 0.01 / 0.8).epsilon(1e-6));
  CHECK(of(cost, LayerPart::kCombine) == doctest::Approx(2 * 0.01 / 0.8).epsilon(1e-6));
  // Head: half of 2000 x 1000 weights on each GPU: 2 MB read at 0.8 TB/s = 2.5 us (3 rows of products take less), and
  // 3 x 2000 float32 logits = 24 kB = 0.03 us.
  CHECK(of(cost, LayerPart::kOther) == doctest::Approx(2.5e-6 + 24e3 / 0.8e12).epsilon(1e-6));
  // Dense FFN of one layer: 6 x 1e5 x 1000 x 4000 / 2 flops at 50 TF/s = 24 ms; activation 1e5 x 2000 columns x 3 x 2 B
  // at 0.8 TB/s = 1.5 ms; all-gather before and reduce-scatter after it, each 200 MB over 2 GPUs: 100 MB at 100 GB/s =
  // 1 ms / 0.5.
  CHECK(of(cost, LayerPart::kDense) == doctest::Approx(0.024 + 1.5e-3 + 2 * 2e-3).epsilon(1e-6));
  // Load of each GPU and layer, and the share of experts: GPU 1 half of GPU 0, GPUs 2 and 3 a quarter.
  CHECK(totals.gpu_load[0] == doctest::Approx(1e5));
  CHECK(totals.gpu_load[7] == doctest::Approx(25e3));
  CHECK(totals.assignments_routed == doctest::Approx(2 * 2 * 1e5));
  CHECK(totals.layers[1].layer_number == 2);
  CHECK(totals.balancedness.mean(0, 0) == doctest::Approx(0.5));     // of the one step
  CHECK(totals.layers[0].balancedness_sum == doctest::Approx(0.5));  // mean of 1, .5, .25, .25 over max 1
}

TEST_CASE("parts and origins sum to the total") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {0.7F, 0.5F, 0.5F, 0.3F});
  const StepCost cost = price(
      b, placement, loads,
      {{.prefill_tokens = 300, .decode_tokens = 20, .prefill_pairs = 45150, .decode_context = 9000, .sampled = 21},
       {.decode_tokens = 7, .decode_context = 700, .sampled = 7}});
  Seconds parts{}, origins{};
  for (const Seconds t : cost.by_part) {
    parts += t;
  }
  for (const Seconds t : cost.by_origin) {
    origins += t;
  }
  CHECK(parts.count() == doctest::Approx(cost.total.count()).epsilon(1e-12));
  CHECK(origins.count() == doctest::Approx(cost.total.count()).epsilon(1e-12));
  CHECK(cost.straggler.count() > 0);
  CHECK(cost.straggler < cost.total);
}

TEST_CASE("balance is what a hot expert costs: equal tokens, skewed routing takes longer") {
  const Bench b;
  const Placement placement = b.placement();
  const std::vector<RankBatch> ranks(2, RankBatch{.prefill_tokens = 4096, .prefill_pairs = 8.4e6, .sampled = 1});
  const StepCost even = price(b, placement, FixedLoads(2, {0.5F, 0.5F, 0.5F, 0.5F}), ranks);
  const StepCost hot = price(b, placement, FixedLoads(2, {1.0F, 0.4F, 0.3F, 0.3F}), ranks);
  CHECK(hot.total > even.total);
  CHECK(of(hot, LayerPart::kExperts) == doctest::Approx(2 * of(even, LayerPart::kExperts)).epsilon(1e-6));
  CHECK(even.straggler.count() == doctest::Approx(0.0).epsilon(1e-9));
}

TEST_CASE("an idle rank takes part: the step costs what the busy rank brings") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {0.5F, 0.5F, 0.5F, 0.5F});
  const RankBatch busy{.prefill_tokens = 1000, .prefill_pairs = 500500, .sampled = 1};
  const StepCost one = price(b, placement, loads, {busy, {}});
  const StepCost both = price(b, placement, loads, {busy, busy});
  CHECK(of(one, LayerPart::kAttention) == of(both, LayerPart::kAttention));
  CHECK(of(one, LayerPart::kExperts) < of(both, LayerPart::kExperts));
  CHECK(one.straggler.count() > 0);  // the idle rank waits for attention
}

TEST_CASE("more tokens never take less time") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {0.8F, 0.5F, 0.4F, 0.3F});
  Seconds last{};
  for (std::int64_t tokens = 1; tokens <= 1 << 20; tokens *= 2) {
    const StepCost cost =
        price(b, placement, loads, {{.prefill_tokens = tokens, .prefill_pairs = 1.0, .sampled = 1}, {}});
    CHECK(cost.total >= last);
    last = cost.total;
  }
}

TEST_CASE("attention is followed by a reduce-scatter and preceded by an all-gather in its tensor-parallel group") {
  Bench b;
  const FixedLoads loads(2, {0.5F, 0.5F, 0.5F, 0.5F});
  const std::vector<RankBatch> ranks(2, RankBatch{.prefill_tokens = 50000, .prefill_pairs = 1e6, .sampled = 1});
  const StepCost fast = price(b, b.placement(), loads, ranks);
  b.cluster.node.intra_rate = 50_GBps;
  const StepCost slow = price(b, b.placement(), loads, ranks);
  // 50000 tokens x 2000 B = 100 MB over 2 GPUs: 50 MB each way, at 100 GB/s 0.5 ms / 0.5 = 1 ms; at half the rate 2 ms.
  // Two collectives in each of three layers.
  CHECK(of(slow, LayerPart::kAttention) - of(fast, LayerPart::kAttention) ==
        doctest::Approx(3 * 2 * 1e-3).epsilon(1e-6));
}

TEST_CASE("shared experts beside routed ones: what they take longer, and no less than their weights take to read") {
  // Rank 0's GPUs have 64 and 32 rows of routed experts, or one row each.
  const FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  for (const std::int64_t tokens : {2, 64}) {
    CAPTURE(tokens);
    Bench b;
    b.model.shared_intermediate = 2000;
    const Placement placement = b.placement();
    StepModel model = b.step_model(placement, loads);
    const std::vector<RankBatch> ranks{{.decode_tokens = tokens, .sampled = tokens}, {}};
    const StepCost after = model.price(0, ranks);
    const RankCost rank = model.ranks()[0];
    Ticks expected{};
    model.begin(0, ranks);
    for (int l = 0; l < 2; ++l) {
      const auto& seconds = model.layer(l).experts.seconds;
      const Ticks routed = rank.gate.time + to_ticks(Seconds(std::max(seconds[0], seconds[1])));
      // 3 x 1000 x 2000 weights of 2 B, half of them on each GPU, at 1 TB/s: 6 us; their products take less.
      expected += rank.shared.time - std::max(to_ticks(6_us), rank.shared.time - routed);
    }
    REQUIRE(rank.shared.time > to_ticks(6_us));
    const StepCost beside = model.price({0, {}, true}, ranks);
    CHECK(to_ticks(after.total) - to_ticks(beside.total) == expected);
    CHECK(to_ticks(after.by_part[static_cast<std::size_t>(LayerPart::kDense)]) -
              to_ticks(beside.by_part[static_cast<std::size_t>(LayerPart::kDense)]) ==
          expected);
  }
}

TEST_CASE("the exchange of counts costs one latency per MoE layer") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {0.5F, 0.5F, 0.5F, 0.5F});
  const std::vector<RankBatch> ranks(2, RankBatch{.decode_tokens = 8, .decode_context = 100, .sampled = 8});
  const auto dispatch = [&](bool counts) {
    DispatchOptions options;
    options.exchange_counts = counts;
    StepModel model(b.model, b.cluster, b.parallelism, options, placement, loads, test::plain_compute(),
                    {test::plain_link(10e-6, 0.5, 2), test::plain_link(100e-6, 0.8, 4)});
    return of(model.price(0, ranks), LayerPart::kDispatch);
  };
  CHECK(dispatch(true) - dispatch(false) == doctest::Approx(2 * 100e-6).epsilon(1e-9));
}

TEST_CASE("combine brings back what dispatch sent, at its own width") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  const std::vector<RankBatch> ranks{{.prefill_tokens = 100000, .prefill_pairs = 1.0, .sampled = 1}, {}};
  DispatchOptions options;
  options.dispatch_bytes = 1;  // fp8 out
  options.exchange_counts = false;
  StepModel model(b.model, b.cluster, b.parallelism, options, placement, loads, test::plain_compute(),
                  {test::plain_link(0.0, 0.5, 2), test::plain_link(0.0, 0.8, 4)});
  const StepCost cost = model.price(0, ranks);
  CHECK(of(cost, LayerPart::kCombine) == doctest::Approx(2 * of(cost, LayerPart::kDispatch)).epsilon(1e-9));
  // Node 0's NIC sends 50000 rows of 1000 B in each of two layers and gets 2000 B back for each; node 1's the reverse.
  const StepTotals& totals = model.totals();
  const auto carried = [&](const std::string& name) {
    for (const LinkTotals& link : totals.links) {
      if (link.name == name) {
        return link.bytes.count();
      }
    }
    return -1.0;
  };
  CHECK(carried("node0.nic0.out") == doctest::Approx(2 * 50000 * 1000.0).epsilon(1e-6));
  CHECK(carried("node0.nic0.in") == doctest::Approx(2 * 50000 * 2000.0).epsilon(1e-6));
  CHECK(carried("node1.nic0.in") == doctest::Approx(2 * 50000 * 1000.0).epsilon(1e-6));
}

TEST_CASE("the first link of all can be the bottleneck") {
  Bench b;
  b.cluster.nodes = 1;
  b.cluster.node.gpus = 4;
  b.parallelism.attention_tp = 1;
  StepTotals totals;
  const std::vector<RankBatch> ranks{{.prefill_tokens = 100000, .prefill_pairs = 1.0, .sampled = 1}, {}, {}, {}};
  const StepCost cost = price(b, b.placement(), FixedLoads(2, {0.25F, 0.5F, 1.0F, 0.25F}), ranks, &totals);
  // GPU 0 sends 175,000 rows of 2000 B at 100 GB/s / 2, and no GPU gets more than 100,000.
  CHECK(totals.links.front().name == "gpu0.port.out");
  CHECK(totals.bottlenecks(0, Direction::kDispatch).front() == doctest::Approx(7e-3).epsilon(1e-6));
  CHECK(of(cost, LayerPart::kDispatch) == doctest::Approx(2 * 7e-3).epsilon(1e-6));
}

TEST_CASE("stragglers: what the mean GPU waits for the slowest, part by part") {
  const Bench b;
  const FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  const std::vector<RankBatch> ranks(2, RankBatch{.prefill_tokens = 100000, .prefill_pairs = 1.0, .sampled = 1});
  StepTotals totals;
  price(b, b.placement(), loads, ranks, &totals);
  // Experts: GPU 0 works 200000 rows x 3e6 flops at 50 TF/s = 12 ms, the mean GPU half of it: 6 ms of waiting. NICs:
  // node 0 gets 100000 tokens x 1.5 rows = 150000, node 1 gets 50000 from node 0; busiest 150000 (node 0 in, node 1
  // out), mean the same, so no GPU waits for the network.
  CHECK(totals.layers[0].straggler.count() == doctest::Approx(6e-3).epsilon(1e-6));
}

TEST_CASE("ranks meet at the exchanges only: a rank's slow attention and another's slow gate do not add up") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {0.5F, 0.5F, 0.5F, 0.5F});
  // Rank 0 reads a long cache for few tokens, rank 1 has many tokens and no cache.
  const RankBatch reads{.decode_tokens = 1, .decode_context = 1e6, .sampled = 1};
  const RankBatch computes{.prefill_tokens = 10000, .prefill_pairs = 1.0, .sampled = 1};
  StepModel model = b.step_model(placement, loads);
  model.begin(0, std::vector<RankBatch>{reads, computes});
  const RankCost few = model.ranks()[0], many = model.ranks()[1];
  REQUIRE(few.attention.time > many.attention.time);
  REQUIRE(few.gate.time < many.gate.time);
  REQUIRE(few.dense.time < many.dense.time);
  // One dense layer, then attention and gate of the first MoE layer: whoever is later sets the time.
  const Ticks to_first = std::max(few.attention.time * 2 + few.dense.time + few.gate.time,
                                  many.attention.time * 2 + many.dense.time + many.gate.time);
  const Ticks to_second = std::max(few.attention.time + few.gate.time, many.attention.time + many.gate.time);
  const StepCost cost = price(b, placement, loads, {reads, computes});
  CHECK(of(cost, LayerPart::kAttention) + of(cost, LayerPart::kGate) + of(cost, LayerPart::kDense) ==
        doctest::Approx(to_seconds(to_first + to_second).count()).epsilon(1e-12));
}

TEST_CASE(
    "a GPU at half speed doubles its own work, a link at half its rate the exchange it limits and its rank's sums") {
  const Bench b;
  const Placement placement = b.placement();
  const FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  const std::vector<RankBatch> ranks(2, RankBatch{.prefill_tokens = 100000, .prefill_pairs = 1.0, .sampled = 1});
  const StepCost whole = price(b, placement, loads, ranks);
  StepModel slow = b.step_model(placement, loads);
  slow.set_conditions({.gpu_speed = {0.5, 1, 1, 1}, .link_speed = {}});
  const StepCost one_slow = slow.price(0, ranks);
  // GPU 0 has the hottest expert: experts take twice as long, and so does the attention of its rank, but for its
  // reduce-scatter and all-gather: 2e8 B, half of it over a port of 100 GB/s at 50 %, 2 ms each in each of 3 layers.
  const double sums = 3 * 2 * 2e-3;
  CHECK(of(one_slow, LayerPart::kExperts) == doctest::Approx(2 * of(whole, LayerPart::kExperts)).epsilon(1e-9));
  CHECK(of(one_slow, LayerPart::kAttention) ==
        doctest::Approx(2 * of(whole, LayerPart::kAttention) - sums).epsilon(1e-9));
  CHECK(of(one_slow, LayerPart::kDispatch) == of(whole, LayerPart::kDispatch));
  slow.set_conditions({.gpu_speed = {}, .link_speed = {0.5, 0.5, 1, 1}});
  const StepCost nic = slow.price(0, ranks);  // both GPUs that share node 0's NIC
  CHECK(of(nic, LayerPart::kDispatch) == doctest::Approx(2 * of(whole, LayerPart::kDispatch)).epsilon(1e-9));
  CHECK(of(nic, LayerPart::kExperts) == of(whole, LayerPart::kExperts));
  CHECK(of(nic, LayerPart::kAttention) == doctest::Approx(of(whole, LayerPart::kAttention) + sums).epsilon(1e-9));
  CHECK(of(nic, LayerPart::kDense) == doctest::Approx(of(whole, LayerPart::kDense) + 2 * 2e-3).epsilon(1e-9));
  CHECK(slow.ranks()[1].attention.time < slow.ranks()[0].attention.time);  // each at the pace of its own ports
  slow.set_conditions({.gpu_speed = {}, .link_speed = {}, .nic_speed = {0.5, 0.5, 1, 1}});
  CHECK(of(slow.price(0, ranks), LayerPart::kAttention) == of(whole, LayerPart::kAttention));  // inside a node
  const std::vector<double> half(4, 0.5);
  slow.set_conditions({.gpu_speed = half, .link_speed = half});
  const StepCost both = slow.price(0, ranks);
  CHECK(both.total.count() == doctest::Approx(2 * whole.total.count()).epsilon(1e-6));
  slow.set_conditions({});
  CHECK(slow.price(0, ranks).total.count() == whole.total.count());
}

TEST_CASE("held draws: a step like the one before takes its layers as they are, and everything adds up as without") {
  const Bench b;
  const Placement placement = b.placement();
  const TurningLoads held(4, true), drawn(4, false);
  StepModel quick = b.step_model(placement, held), plain = b.step_model(placement, drawn);
  for (std::int64_t step = 0; step < 12; ++step) {
    CAPTURE(step);
    if (step == 6) {  // a GPU slows down amid a held draw
      StepConditions slow;
      slow.gpu_speed = {1, 1, 0.5, 1};
      quick.set_conditions(slow);
      plain.set_conditions(slow);
    }
    // Contexts grow; step 9 brings other tokens.
    const double context = 5000 + 50.0 * static_cast<double>(step);
    const std::vector<RankBatch> ranks(
        2, RankBatch{.decode_tokens = step == 9 ? 60 : 50, .decode_context = context, .sampled = 50});
    CHECK(quick.price(step, ranks).total == plain.price(step, ranks).total);
  }
  CHECK(drawn.draws == 12);
  CHECK(held.draws == 4);  // of steps 0, 4, 8 and 9; StepDraws keeps two, so step 10 finds that of 8
  const StepTotals &a = quick.totals(), &z = plain.totals();
  CHECK(a.gpu_load == z.gpu_load);
  CHECK(a.assignments_routed == z.assignments_routed);
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    CHECK(a.links[i].bytes.count() == doctest::Approx(z.links[i].bytes.count()).epsilon(1e-12));
  }
}
