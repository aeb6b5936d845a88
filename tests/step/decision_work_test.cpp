#include "sim/step/decision_work.h"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/core/rng.h"
#include "sim/step/step_routing.h"
#include "tests/support/residency.h"

using namespace epsim;

namespace {

double sum(const std::vector<double>& rows) { return std::accumulate(rows.begin(), rows.end(), 0.0); }

// Two GPUs of one node, experts 0 and 1 at home on them; 10 tokens on each GPU, top-1.
struct TwoGpus {
  Residency home = test::contiguous(2, 2);
  RequestMatrix requests{2, 2};
  std::vector<std::int64_t> tokens{10, 10};
  TwoGpus() {
    requests.at(0, 0) = 8;
    requests.at(0, 1) = 2;
    requests.at(1, 0) = 6;
    requests.at(1, 1) = 4;
  }
  DecisionWork read(const StepDecision& decision, const ExecutionProfile& profile, Dedup dedup = Dedup::kNone) const {
    DecisionReader reader({2, 2}, dedup, profile);
    DecisionWork out;
    reader.read(requests, decision, home, tokens, {}, out);
    return out;
  }
};

// GPU 0's rows to GPU 1, sent once: of its 10 tokens 8 use expert 0, of which 3 are computed there, and 2 expert 1.
double rows_once() {
  MissProbability missed;
  missed.add(0.8, 3.0 / 8);
  missed.add(0.2, 1.0);
  return 10 * (1 - missed.value(pair_weight(std::vector<float>{0.8F, 0.2F})));
}

// Expert 0 is also on GPU 1, which computes 9 of its 14 tokens.
StepDecision hot_expert_copied() {
  StepDecision d{TokenAssignment(2, 2), 1, {{0, 1}}};
  d.tokens.at(0, 0) = 5;
  d.tokens.at(1, 0) = 9;
  d.tokens.at(1, 1) = 6;
  return d;
}

}  // namespace

TEST_CASE("tokens are computed where they live as far as the decision has it, the others go where there is room") {
  const DecisionWork w = TwoGpus().read(hot_expert_copied(), {});
  // GPU 0 computes 5 of its 8 tokens for expert 0, GPU 1 all 6 of its own and the 3 left; expert 1: 2 go from 0 to 1.
  CHECK(w.tokens.executed == std::vector<double>{5, 15});
  CHECK(w.tokens.intra_out == std::vector<double>{5, 0});
  CHECK(w.tokens.intra_in == std::vector<double>{0, 5});
  CHECK(w.weights.intra_out == std::vector<double>{1, 0});
  CHECK(w.weights.intra_in == std::vector<double>{0, 1});
  CHECK(w.first[1].rows == 15);
  CHECK(w.first[1].touched == 2);
  CHECK(w.then[1].rows == 0);
}

TEST_CASE("first stages: local tokens with two stages, experts at home with copies on demand") {
  const DecisionWork local = TwoGpus().read(hot_expert_copied(), {.two_stage = true});
  CHECK(local.first[0].rows == 5);
  CHECK(local.then[0].rows == 0);
  CHECK(local.first[1].rows == 6 + 4);  // its own tokens of both experts
  CHECK(local.then[1].rows == 3 + 2);
  const DecisionWork home = TwoGpus().read(hot_expert_copied(), {.copies_on_demand = true});
  CHECK(home.first[1].rows == 6);  // expert 1
  CHECK(home.then[1].rows == 9);   // expert 0, fetched
  CHECK(home.then[1].touched == 1);
}

TEST_CASE("tokens that draw copies go by shares, wherever they live") {
  const DecisionWork w = TwoGpus().read(hot_expert_copied(), {.draws_copies = true});
  // Expert 0: 5 of 14 on GPU 0. GPU 0 sends 8 x 9/14 of it and 2 of expert 1; GPU 1 sends 6 x 5/14.
  CHECK(w.tokens.intra_out[0] == doctest::Approx(8.0 * 9 / 14 + 2));
  CHECK(w.tokens.intra_out[1] == doctest::Approx(6.0 * 5 / 14));
  CHECK(w.tokens.executed == std::vector<double>{5, 15});
}

TEST_CASE(
    "rows of a dispatched shared expert are computed beside the routed ones, and move only where they add a place") {
  StepDecision d = hot_expert_copied();
  d.shared = {{0.4, 0.6, 0.0, 1.0}, true};  // 6 of GPU 0's 10 tokens on GPU 1, which has all of its own
  const DecisionWork visited = TwoGpus().read(d, {.dispatches_shared = true}, Dedup::kGpu);
  CHECK(visited.first[0].rows == doctest::Approx(5 + 4));
  CHECK(visited.first[1].rows == doctest::Approx(15 + 6 + 10));
  CHECK(visited.first[1].touched == 3);
  CHECK(visited.tokens.executed == std::vector<double>{5, 15});
  const double routed_rows = rows_once();
  CHECK(visited.tokens.intra_out[0] == doctest::Approx(routed_rows));
  d.shared.only_visited = false;
  const DecisionWork anywhere = TwoGpus().read(d, {.dispatches_shared = true}, Dedup::kGpu);
  CHECK(anywhere.tokens.intra_out[0] == doctest::Approx(10 - (10 - routed_rows) * 0.4));
}

TEST_CASE("an all-gather brings every token everywhere, de-duplication one row per token and GPU") {
  const DecisionWork gathered =
      TwoGpus().read(hot_expert_copied(), {.dispatch = ExecutionProfile::Dispatch::kAllGather});
  CHECK(gathered.tokens.intra_out == std::vector<double>{10, 10});
  CHECK(gathered.tokens.intra_in == std::vector<double>{10, 10});
  const DecisionWork once = TwoGpus().read(hot_expert_copied(), {}, Dedup::kGpu);
  CHECK(once.tokens.intra_out[0] == doctest::Approx(rows_once()));
}

TEST_CASE("to leave all experts at home, or to share copies evenly, sends the rows that the placement sends") {
  const ClusterShape shape{16, 4};
  const int experts = 64, top_k = 8;
  const Parallelism parallelism{.gpus = 16, .attention_tp = 1};
  StepLoads loads;
  loads.resize(1, 1, experts);
  for (int e = 0; e < experts; ++e) {  // from 0.5 to 1.5 times the mean
    loads.row(0, 0)[static_cast<std::size_t>(e)] =
        static_cast<float>(top_k) / experts * (0.5F + static_cast<float>(e) / (experts - 1));
  }
  const std::vector<std::int64_t> tokens(16, 100'000);  // so that whole assignments round by 1e-4 at most
  PlacementPlan plan{.policy = "test", .experts = experts, .gpus = 16, .layers = {}};
  std::vector<int> slots;
  for (int g = 0; g < 16; ++g) {
    slots.insert(slots.end(), {4 * g, 4 * g + 1, 4 * g + 2, 4 * g + 3, (4 * g + 22) % experts});
  }
  plan.layers.push_back(uniform_layer(slots, 16));
  const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(100));
  const Residency home = homes_of(plan, 4).front();
  RandomStream random(Seed{1}, "rows");
  const RequestMatrix requests = draw_requests(loads, 0, parallelism, tokens, top_k, random);
  for (const Dedup dedup : {Dedup::kNone, Dedup::kGpu, Dedup::kNode}) {
    TrafficMatrix placed;
    TrafficModel(placement, parallelism, shape, dedup).layer(0, loads, tokens, placed);
    DecisionReader reader(shape, dedup, {.starts_from_copies = true, .draws_copies = true});
    DecisionWork decided;
    reader.read(requests, {.tokens = even_split(requests, home), .copies = {}}, home, tokens, {}, decided);
    for (std::size_t g = 0; g < 16; ++g) {
      CHECK(decided.tokens.intra_out[g] == doctest::Approx(placed.intra_out[g]).epsilon(1e-3));
      CHECK(decided.tokens.inter_out[g] == doctest::Approx(placed.inter_out[g]).epsilon(1e-3));
      CHECK(decided.tokens.inter_in[g] == doctest::Approx(placed.inter_in[g]).epsilon(1e-3));
      CHECK(decided.tokens.executed[g] == doctest::Approx(placed.executed[g]).epsilon(1e-3));
    }
  }
}

TEST_CASE("a broadcast passes weights along a ring: no GPU sends an expert twice") {
  TwoGpus two;
  StepDecision d{TokenAssignment(4, 4), 1, {{0, 1}, {0, 2}, {0, 3}}};
  const Residency home = test::contiguous(4, 4);
  const RequestMatrix none(4, 4);
  DecisionReader reader({4, 4}, Dedup::kNone, {.copies_on_demand = true, .broadcasts = true});
  DecisionWork w;
  reader.read(none, d, home, std::vector<std::int64_t>(4, 0), {}, w);
  CHECK(w.weights.intra_out == std::vector<double>{1, 1, 1, 0});
  CHECK(w.weights.intra_in == std::vector<double>{0, 1, 1, 1});
}

TEST_CASE("random decisions: every assignment computed once, what is sent is received, on one node and on several") {
  for (std::uint64_t i = 0; i < 60; ++i) {
    RandomStream random(Seed{3}, "decision", i);
    const int gpus = 8, experts = 16;
    const ClusterShape shape{gpus, 2 << random.below(3)};
    RequestMatrix requests(gpus, experts);
    std::vector<std::int64_t> tokens(gpus, 0);
    StepDecision d{TokenAssignment(gpus, experts), 0, {}};
    for (int g = 0; g < gpus; ++g) {
      for (int e = 0; e < experts; ++e) {
        const auto n = static_cast<std::int64_t>(random.below(4) == 0 ? 0 : random.below(50));
        requests.at(g, e) = n;
        tokens[static_cast<std::size_t>(g)] = std::max(tokens[static_cast<std::size_t>(g)], n);
        d.tokens.at(static_cast<int>(random.below(gpus)), e) += n;
      }
    }
    const bool gather = random.below(3) == 0;
    const Dedup dedup = std::array{Dedup::kNone, Dedup::kGpu, Dedup::kNode}[random.below(3)];
    DecisionReader reader(
        shape, dedup,
        {.dispatch = gather ? ExecutionProfile::Dispatch::kAllGather : ExecutionProfile::Dispatch::kAllToAll,
         .two_stage = random.below(2) == 0});
    DecisionWork w;
    reader.read(requests, d, test::contiguous(experts, gpus), tokens, {}, w);
    CHECK(sum(w.tokens.executed) == static_cast<double>(requests.total()));
    CHECK(sum(w.tokens.intra_out) == doctest::Approx(sum(w.tokens.intra_in)));
    CHECK(sum(w.tokens.inter_out) == doctest::Approx(sum(w.tokens.inter_in)));
    double staged = 0;
    for (std::size_t g = 0; g < static_cast<std::size_t>(gpus); ++g) {
      CHECK(w.first[g].rows + w.then[g].rows == doctest::Approx(w.tokens.executed[g]));
      staged += w.first[g].rows + w.then[g].rows;
    }
    CHECK(staged == doctest::Approx(static_cast<double>(requests.total())));
  }
}

TEST_CASE("requests are exact: top-k per token, no expert of the row off its expectation by more than one") {
  StepLoads loads;
  loads.resize(1, 1, 7);
  const std::vector<float> pi{0.9F, 0.5F, 0.3F, 0.15F, 0.1F, 0.05F, 0.0F};  // top-2
  std::copy(pi.begin(), pi.end(), loads.row(0, 0).begin());
  const Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  const std::vector<std::int64_t> tokens = tokens_by_gpu(std::vector<std::int64_t>{1001, 3}, parallelism);
  CHECK(tokens == std::vector<std::int64_t>{500, 501, 1, 2});
  RandomStream random(Seed{1}, "requests");
  const RequestMatrix requests = draw_requests(loads, 0, parallelism, tokens, 2, random);
  for (int e = 0; e < 7; ++e) {
    const auto chance = static_cast<double>(pi[static_cast<std::size_t>(e)]);
    std::int64_t sum = 0;
    for (int g = 0; g < 4; ++g) {
      const auto here = static_cast<double>(tokens[static_cast<std::size_t>(g)]);
      sum += requests.at(g, e);
      // The row's count is off by less than one, and so is each GPU's part of what those before it left.
      CHECK(std::abs(static_cast<double>(requests.at(g, e)) - here * chance) <= 2.0 + g);
      CHECK(static_cast<double>(requests.at(g, e)) <= here);
    }
    CHECK(std::abs(static_cast<double>(sum) - 1004 * chance) <= 1.0 + 1e-3);
  }
  for (int g = 0; g < 4; ++g) {
    CHECK(requests.of_gpu(g) == 2 * tokens[static_cast<std::size_t>(g)]);
  }
}
