// What engines do where they send every token to every GPU, worked out by hand on two nodes of two GPUs (small_step.h):
// rows of 2000 B, 10 GB/s between the nodes at 80 %, 100 GB/s inside at 50 %.
#include <doctest/doctest.h>

#include "tests/models/small_step.h"

using namespace epsim;

namespace {

struct EngineParts {
  double attention, dispatch, combine;
};

DispatchOptions exchange_by(Transport transport, Dedup dedup) {
  DispatchOptions out{.dedup = dedup, .exchange_counts = false};
  out.network.transport = transport;
  return out;
}

// Of one step with these prompts; both DP ranks have two GPUs and one of the nodes.
EngineParts step_of(const DispatchOptions& dispatch, std::int64_t first, std::int64_t second) {
  const test::SmallStep b;
  const Placement placement = b.placement();
  const test::FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  StepModel model(b.model, b.cluster, b.parallelism, dispatch, placement, loads, test::plain_compute(),
                  {test::plain_link(0.0, 0.5, 2), test::plain_link(0.0, 0.8, 4)});
  std::vector<RankBatch> batches(2);
  for (const auto& [rank, tokens] : {std::pair{0, first}, std::pair{1, second}}) {
    if (tokens > 0) {
      batches[rank] = {.prefill_tokens = tokens, .prefill_pairs = 1e9, .sampled = 3};
    }
  }
  const StepCost cost = model.price(0, batches);
  const auto part = [&](LayerPart p) { return cost.by_part[static_cast<std::size_t>(p)].count(); };
  return {part(LayerPart::kAttention), part(LayerPart::kDispatch), part(LayerPart::kCombine)};
}

const DispatchOptions kGathered = exchange_by(Transport::kAllGatherReduceScatter, Dedup::kEven),
                      kReduced = exchange_by(Transport::kAllReduce, Dedup::kEven),
                      kBroadcasts = exchange_by(Transport::kBroadcastAllReduce, Dedup::kByTpRank);

DispatchOptions padded() {
  DispatchOptions out = exchange_by(Transport::kAllGatherAllReduce, Dedup::kPadded);
  out.uneven_steps = std::make_shared<const DispatchOptions>(kReduced);
  return out;
}

}  // namespace

// SGLang v0.4.8, layers/dp_attention.py: _dp_gather fills the buffer of all tokens with zeros, copies a rank's own in and
// calls tensor_model_parallel_all_reduce; the experts' outputs are all-reduced and the rank's own copied out.
TEST_CASE("an all-reduce of a zero-filled buffer moves twice the bytes of an all-gather") {
  // 50,000 tokens a node: by all-gather each node sends its 100 MB, in each of two layers.
  const EngineParts gather = step_of(kGathered, 50000, 50000), reduce = step_of(kReduced, 50000, 50000);
  CHECK(gather.dispatch == doctest::Approx(2 * 0.1 / 10 / 0.8));
  CHECK(reduce.dispatch == doctest::Approx(2 * gather.dispatch));
  CHECK(reduce.combine == doctest::Approx(2 * gather.combine));
  // A rank's own all-gather and reduce-scatter of 100 MB, half of it over a port, in three layers: the all-reduce adds
  // attention's parts up, and gives every GPU all rows.
  CHECK(gather.attention - reduce.attention == doctest::Approx(3 * 2 * 0.1 / 2 / 100 / 0.5));
  // So for a lone prompt, whose rows go around the same rings: half of them cross.
  CHECK(step_of(kGathered, 100000, 0).dispatch == doctest::Approx(gather.dispatch));
  CHECK(step_of(kGathered, 0, 100000).combine == doctest::Approx(gather.combine));
  // The buffer is the same whoever's tokens are in it: half of a lone prompt's rows cross, twice.
  CHECK(step_of(kReduced, 100000, 0).dispatch == doctest::Approx(reduce.dispatch));
  CHECK(step_of(kReduced, 0, 100000).combine == doctest::Approx(reduce.combine));
}

// SGLang v0.4.10, DPPaddingMode.get_dp_padding_mode: MAX_LEN where sum * 2 > max * dp_size.
TEST_CASE("an all-gather padded to the longest rank, unless an all-reduce moves fewer rows") {
  // 2 x 140,000 > 2 x 100,000: 200,000 rows, of which each node sends half, 200 MB; twice on the way back.
  const EngineParts apart = step_of(padded(), 100000, 40000);
  CHECK(apart.dispatch == doctest::Approx(2 * 0.2 / 10 / 0.8));
  CHECK(apart.combine == doctest::Approx(2 * 2 * 0.2 / 10 / 0.8));
  // 2 x 100,000 is no more than 2 x 100,000: an all-reduce of the 100,000 both ways.
  const EngineParts lone = step_of(padded(), 100000, 0), reduce = step_of(kReduced, 100000, 0);
  CHECK(lone.dispatch == reduce.dispatch);
  CHECK(lone.combine == reduce.combine);
  CHECK(lone.dispatch == doctest::Approx(2 * 0.2 / 10 / 0.8));
  // Attention's outputs are added up within the rank, 100 MB over half of a port each; nothing is gathered.
  CHECK(step_of(kGathered, 50000, 50000).attention - step_of(padded(), 50000, 50000).attention ==
        doctest::Approx(3 * 0.1 / 2 / 100 / 0.5));
}

// vLLM v0.9.2, all2all.py: NaiveAll2AllManager broadcasts over the DP group, which each tensor-parallel rank has of its
// own with all rows.
TEST_CASE("broadcasts: every GPU of a rank sends all of its tokens") {
  // Both GPUs of the first rank send 100,000 rows through their node's NIC: 400 MB; sums of as many, twice, come back.
  const EngineParts lone = step_of(kBroadcasts, 100000, 0);
  CHECK(lone.dispatch == doctest::Approx(2 * 0.4 / 10 / 0.8));
  CHECK(lone.combine == doctest::Approx(2 * 2 * 0.4 / 10 / 0.8));
  // Outputs of experts are added up inside the rank once more.
  CHECK(lone.attention - step_of(kGathered, 100000, 0).attention == doctest::Approx(3 * 2 * 0.2 / 2 / 100 / 0.5));
}

TEST_CASE("rings of one GPU a rank: each receives all others' tokens, an equal part of them through each NIC") {
  test::SmallStep b;
  b.parallelism.attention_tp = 1;
  const Placement placement = b.placement();
  StepLoads loads;
  loads.resize(2, 1, 4);
  std::fill(loads.per_token.begin(), loads.per_token.end(), 0.5F);
  TrafficMatrix traffic;
  TrafficModel(placement, b.parallelism, shape_of(b.cluster), Dedup::kByTpRank)
      .layer(0, loads, std::vector<std::int64_t>{100, 200, 300, 400}, traffic);
  for (int g = 0; g < 4; ++g) {
    CAPTURE(g);
    CHECK(traffic.intra_in[g] + traffic.inter_in[g] == doctest::Approx(1000 - 100 * (g + 1)));
    CHECK(traffic.inter_in[g] == doctest::Approx(traffic.intra_in[g]));  // two channels, one through each NIC
  }
  CHECK(traffic.executed[0] == doctest::Approx(500));
}
