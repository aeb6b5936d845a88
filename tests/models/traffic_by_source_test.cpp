// Rows when copies serve the tokens near them: by hand, and against a model that counts every source by itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "models/network/traffic.h"
#include "sim/core/rng.h"

using namespace epsim;

namespace {

StepLoads one_row(std::vector<float> pi) {
  StepLoads loads;
  loads.resize(1, 1, static_cast<int>(pi.size()));
  loads.per_token = std::move(pi);
  return loads;
}

double total(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

// A random plan with copies, and random shares, some of them zero, for sources of `gpus_per_source` GPUs.
struct RandomCase {
  static constexpr int kExperts = 10, kGpus = 8, kSlots = 24;
  ClusterShape shape{.gpus = kGpus, .gpus_per_node = 4};
  PlacementPlan plan{.policy = "test", .experts = kExperts, .gpus = kGpus, .layers = {}};
  SourceShares shares;

  RandomCase(RandomStream& random, int gpus_per_source, int gpus_per_node = 4) {
    shape.gpus_per_node = gpus_per_node;
    std::vector<int> slots;
    for (int i = 0; i < kSlots; ++i) {
      slots.push_back(i < kExperts ? i : static_cast<int>(random.below(kExperts)));
    }
    plan.layers = {uniform_layer(slots, kGpus)};
    shares.gpus_per_source = gpus_per_source;
    for (int source = 0; source < kGpus / gpus_per_source; ++source) {
      std::vector<double> draw, total(kExperts, 0.0);
      for (const int e : slots) {
        draw.push_back(random.uniform() < 0.3 ? 0.0 : random.uniform());
        total[static_cast<std::size_t>(e)] += draw.back();
      }
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const double all = total[static_cast<std::size_t>(slots[i])];
        const bool first = std::find(slots.begin(), slots.end(), slots[i]) - slots.begin() == static_cast<long>(i);
        shares.share.push_back(static_cast<float>(all > 0 ? draw[i] / all : first ? 1.0 : 0.0));
      }
    }
  }
};

// The rows that `tokens` of GPU `source` alone make: an ordinary placement with that source's shares for everybody.
void add_source(const RandomCase& c, int source, const Parallelism& parallelism, Dedup dedup, const StepLoads& loads,
                std::int64_t tokens, TrafficMatrix& sum_of_all) {
  const auto row = static_cast<std::size_t>(source / c.shares.gpus_per_source) * RandomCase::kSlots;
  const auto from = c.shares.share.begin() + static_cast<std::ptrdiff_t>(row);
  const SourceShares same{.gpus_per_source = RandomCase::kGpus, .share = {from, from + RandomCase::kSlots}};
  const Placement placement = Placement::build(c.plan, c.shape, Bytes(1), Bytes(1e6), {same});
  std::vector<std::int64_t> brought(RandomCase::kGpus, 0);
  brought[static_cast<std::size_t>(source)] = tokens;
  TrafficMatrix t;
  TrafficModel(placement, parallelism, c.shape, dedup).layer(0, loads, brought, t);
  for (std::size_t g = 0; g < RandomCase::kGpus; ++g) {
    sum_of_all.executed[g] += t.executed[g];
    sum_of_all.intra_out[g] += t.intra_out[g];
    sum_of_all.intra_in[g] += t.intra_in[g];
    sum_of_all.inter_out[g] += t.inter_out[g];
    sum_of_all.inter_in[g] += t.inter_in[g];
  }
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t g = 0; g < a.size(); ++g) {
    CHECK(a[g] == doctest::Approx(b[g]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("copies that serve their own node keep its tokens off the NICs") {
  // Two nodes of two GPUs, all four experts in both nodes, a DP rank a node; every token uses experts 0 and 1.
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 2};
  const Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  const PlacementPlan plan{
      .policy = "test", .experts = 4, .gpus = 4, .layers = {uniform_layer({0, 2, 1, 3, 0, 2, 1, 3}, 4)}};
  const SourceShares nodes{2, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}};
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100), {nodes});
  TrafficMatrix t;
  TrafficModel model(placement, parallelism, shape, Dedup::kGpu);
  model.layer(0, one_row({1, 1, 0, 0}), std::vector<std::int64_t>{100, 20}, t);
  CHECK(t.executed == std::vector<double>{100, 100, 20, 20});
  CHECK(total(t.inter_out) == 0.0);
  CHECK(t.intra_out == std::vector<double>{50, 50, 10, 10});  // each GPU's tokens also need its neighbour
  // With even shares half of the rows cross.
  const Placement even = Placement::build(plan, shape, Bytes(1), Bytes(100));
  TrafficModel(even, parallelism, shape, Dedup::kNone)
      .layer(0, one_row({1, 1, 0, 0}), std::vector<std::int64_t>{100, 20}, t);
  CHECK(total(t.inter_out) == 120.0);
  CHECK(t.executed == std::vector<double>{60, 60, 60, 60});
}

TEST_CASE("touched experts follow the rows of each copy") {
  const ClusterShape shape{.gpus = 2, .gpus_per_node = 2};
  const Parallelism parallelism{.gpus = 2, .attention_tp = 1};
  const PlacementPlan plan{.policy = "test", .experts = 1, .gpus = 2, .layers = {uniform_layer({0, 0}, 2)}};
  const Placement own = Placement::build(plan, shape, Bytes(1), Bytes(100), {{1, {1, 0, 0, 1}}});
  TrafficMatrix t;
  TrafficModel(own, parallelism, shape, Dedup::kGpu).layer(0, one_row({1}), std::vector<std::int64_t>{64, 0}, t);
  CHECK(t.touched == std::vector<double>{1.0, 0.0});
  CHECK(t.executed == std::vector<double>{64, 0});
  CHECK(total(t.intra_out) == 0.0);
}

TEST_CASE("shares by source are the sum of what each source does by itself") {
  RandomStream random(Seed{5}, "traffic by source");
  const Parallelism parallelism{.gpus = 8, .attention_tp = 1};
  TrafficMatrix t;  // of one case after another
  struct Size {
    int source, node;  // GPUs; in the last one, sources span nodes
  };
  for (const Size size : {Size{1, 4}, Size{2, 4}, Size{4, 4}, Size{4, 2}}) {
    CAPTURE(size.source);
    for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
      const RandomCase c(random, size.source, size.node);
      std::vector<float> pi;
      std::vector<std::int64_t> tokens;
      for (int e = 0; e < RandomCase::kExperts; ++e) {
        pi.push_back(static_cast<float>(random.uniform()));
      }
      for (int g = 0; g < RandomCase::kGpus; ++g) {
        tokens.push_back(static_cast<std::int64_t>(random.below(3) * random.below(300)));
      }
      const StepLoads loads = one_row(pi);
      const std::vector<double> zero(RandomCase::kGpus, 0.0);
      TrafficMatrix expected;
      expected.clear(c.shape);
      expected.executed = zero;
      for (int g = 0; g < RandomCase::kGpus; ++g) {
        add_source(c, g, parallelism, dedup, loads, tokens[static_cast<std::size_t>(g)], expected);
      }
      const Placement placement = Placement::build(c.plan, c.shape, Bytes(1), Bytes(1e6), {c.shares});
      TrafficModel(placement, parallelism, c.shape, dedup).layer(0, loads, tokens, t);
      check_close(t.executed, expected.executed);
      check_close(t.intra_out, expected.intra_out);
      check_close(t.intra_in, expected.intra_in);
      check_close(t.inter_out, expected.inter_out);
      check_close(t.inter_in, expected.inter_in);
      const std::vector<double> pairs = t.pairs();
      for (std::size_t g = 0; g < RandomCase::kGpus; ++g) {
        const auto out = pairs.begin() + static_cast<std::ptrdiff_t>(g * RandomCase::kGpus);
        CHECK(std::accumulate(out, out + RandomCase::kGpus, 0.0) ==
              doctest::Approx(t.intra_out[g] + t.inter_out[g]).epsilon(1e-9));
      }
      const std::vector<double> intra_in = t.intra_in;
      TrafficModel(placement, parallelism, c.shape, dedup).layer(0, loads, tokens, t);
      CHECK(t.intra_in == intra_in);
    }
  }
}

TEST_CASE("with a mix of its own for every DP rank, rows are conserved too") {
  RandomStream random(Seed{6}, "traffic by source and rank");
  const RandomCase c(random, 1);
  const Parallelism parallelism{.gpus = 8, .attention_tp = 4};
  const Placement placement = Placement::build(c.plan, c.shape, Bytes(1), Bytes(1e6), {c.shares});
  StepLoads loads;
  loads.resize(1, 2, RandomCase::kExperts);
  const std::vector<std::int64_t> tokens{300, 70};
  double routed = 0;
  for (int s = 0; s < 2; ++s) {
    for (float& pi : loads.row(0, s)) {
      pi = static_cast<float>(random.uniform());
      routed += static_cast<double>(pi) * static_cast<double>(tokens[static_cast<std::size_t>(s)]);
    }
  }
  for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
    TrafficMatrix t;
    TrafficModel(placement, parallelism, c.shape, dedup).layer(0, loads, tokens, t);
    CHECK(total(t.executed) == doctest::Approx(routed).epsilon(1e-6));
    CHECK(total(t.intra_out) == doctest::Approx(total(t.intra_in)).epsilon(1e-9));
    CHECK(total(t.inter_out) == doctest::Approx(total(t.inter_in)).epsilon(1e-9));
  }
}
