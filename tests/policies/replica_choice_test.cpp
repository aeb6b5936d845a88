#include "policies/replica_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "policies/registry.h"
#include "policies/replica_choice/by_copy_rank.h"
#include "policies/replica_choice/grace_routing.h"
#include "policies/replica_choice/sglang_static.h"
#include "tests/policies/support.h"
#include "tests/support/errors.h"

using namespace epsim;

namespace {

std::unique_ptr<ReplicaChoice> choice(const std::string& name, const std::string& yaml = "{}") {
  ConfigReader options = Config::from_text(yaml, "choice.yaml").root();
  std::unique_ptr<ReplicaChoice> made = make_replica_choice(name, options);
  options.finish();
  return made;
}

// Two nodes of two GPUs. Expert 0 is everywhere but on GPU 1, expert 1 on GPU 1 alone, expert 2 on GPUs 0 and 2.
const ClusterShape kShape{.gpus = 4, .gpus_per_node = 2};
const LayerPlan kLayer{.slots = {0, 2, 1, 0, 2, 0}, .first_slot = {0, 2, 3, 5, 6}, .copy_rank = {}};
const std::vector<double> kLoads{60, 10, 40};

std::vector<float> row(const SourceShares& shares, int source, std::size_t slots = 6) {
  const auto from = shares.share.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(source) * slots);
  return {from, from + static_cast<std::ptrdiff_t>(slots)};
}

SourceShares shares_of(const std::string& name, const std::string& yaml = "{}") {
  return choice(name, yaml)->shares({kLayer, 0, kLoads, kShape});
}

}  // namespace

TEST_CASE("even: every copy the same, for all sources together") {
  const SourceShares s = shares_of("even");
  CHECK(s.gpus_per_source == 4);
  CHECK(s.share == std::vector<float>{1.0F / 3, 0.5F, 1, 1.0F / 3, 0.5F, 1.0F / 3});
}

TEST_CASE("SGLang dynamic: 65536 values modulo the copies") {
  // 65536 = 3 * 21845 + 1: the first copy gets the odd value.
  CHECK(sglang_dynamic_shares(3) == std::vector<double>{21846.0 / 65536, 21845.0 / 65536, 21845.0 / 65536});
  CHECK(sglang_dynamic_shares(2) == std::vector<double>{0.5, 0.5});
  CHECK(shares_of("sglang_dynamic").share[0] == static_cast<float>(21846.0 / 65536));
}

TEST_CASE("vLLM: the copy of a row is its multiplicative hash modulo the copies") {
  CHECK(vllm_copy(0, 3) == 0);
  CHECK(vllm_copy(1, 1000) == 769);  // 2654435769
  // 2 * 2654435769 = 5308871538 = 4294967296 + 1013904242.
  CHECK(vllm_copy(2, 1000) == 242);
  CHECK(vllm_copy(2, 2) == 0);
  // Rows 0 .. 3 and two copies: parities of 0, 2654435769, 1013904242 and (their sum) 3668340011.
  CHECK(vllm_shares(4, 2) == std::vector<double>{0.5, 0.5});
  CHECK(vllm_shares(1, 2) == std::vector<double>{1, 0});
  for (const double share : vllm_shares(4096, 7)) {
    CHECK(share == doctest::Approx(1.0 / 7).epsilon(0.05));
  }
}

TEST_CASE("vllm-ascend: row + GPU + expert modulo the copies; the table repeats after 1024 rows") {
  // Two tokens of GPU 1 for expert 4 and three copies: 5 mod 3 and 6 mod 3.
  CHECK(ascend_shares(2, 1, 4, 3) == std::vector<double>{0.5, 0, 0.5});
  for (const int tokens : {1, 100, 1024, 1500, 5000}) {
    std::vector<double> counted(3, 0.0);
    for (int t = 0; t < tokens; ++t) {
      counted[static_cast<std::size_t>((t % 1024 + 6 + 11) % 3)] += 1.0 / tokens;
    }
    const std::vector<double> closed = ascend_shares(tokens, 6, 11, 3);
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(closed[c] == doctest::Approx(counted[c]));
    }
  }
  const SourceShares s = shares_of("ascend_rotation", "{tokens: 1}");
  CHECK(s.gpus_per_source == 1);
  CHECK(row(s, 1) == std::vector<float>{0, 0, 1, 1, 1, 0});  // expert 0: copy (0 + 1 + 0) mod 3; 2: (0 + 1 + 2) mod 2
}

TEST_CASE("SGLang static: own GPU, then own node, then as fairly as numbers allow") {
  RandomStream random(Seed{42}, "test");
  // Copies on GPUs 0, 2 and 9 of 16 in nodes of 4: GPUs 0, 2 and 9 use their own, 1 and 3 the first of their node, 8,
  // 10 and 11 GPU 9's, and the other 8 are dealt 2, 3 and 3.
  const ClusterShape shape{.gpus = 16, .gpus_per_node = 4};
  const std::vector<int> near = sglang_static_copies(std::vector<int>{0, 2, 9}, shape, Near::kNodeIfFewer, random);
  CHECK(std::vector<int>(near.begin(), near.begin() + 4) == std::vector<int>{0, 0, 1, 0});
  CHECK(std::vector<int>(near.begin() + 8, near.begin() + 12) == std::vector<int>{2, 2, 2, 2});
  std::vector<std::ptrdiff_t> dealt;
  for (const int copy : {0, 1, 2}) {
    dealt.push_back(std::count(near.begin() + 4, near.begin() + 8, copy) +
                    std::count(near.begin() + 12, near.end(), copy));
  }
  std::sort(dealt.begin(), dealt.end());
  CHECK(dealt == std::vector<std::ptrdiff_t>{2, 3, 3});
  // All copies in one node: that node's other GPUs are dealt theirs like everybody, 7 and 7; or all take the first, while the
  // other 12 are dealt 6 and 6.
  const std::vector<int> one_node = sglang_static_copies(std::vector<int>{0, 2}, shape, Near::kNodeIfFewer, random);
  CHECK(std::count(one_node.begin(), one_node.end(), 0) == 8);
  CHECK(one_node[2] == 1);
  const std::vector<int> to_first = sglang_static_copies(std::vector<int>{0, 2}, shape, Near::kNode, random);
  CHECK(std::vector<int>(to_first.begin(), to_first.begin() + 4) == std::vector<int>{0, 0, 1, 0});
  CHECK(std::count(to_first.begin() + 4, to_first.end(), 0) == 6);
  // Without the node 14 GPUs are dealt, 7 and 7.
  const std::vector<int> far = sglang_static_copies(std::vector<int>{0, 2}, shape, Near::kGpu, random);
  CHECK(far[0] == 0);
  CHECK(far[2] == 1);
  CHECK(std::count(far.begin(), far.end(), 0) == 8);
  // Three copies for 13 far GPUs: 4, 4 and 5, so with the own ones 5, 5 and 6.
  const std::vector<int> three = sglang_static_copies(std::vector<int>{1, 5, 9}, shape, Near::kGpu, random);
  std::vector<std::ptrdiff_t> counts;
  for (const int copy : {0, 1, 2}) {
    counts.push_back(std::count(three.begin(), three.end(), copy));
  }
  std::sort(counts.begin(), counts.end());
  CHECK(counts == std::vector<std::ptrdiff_t>{5, 5, 6});
  // Two copies on one GPU: it uses the first.
  CHECK(sglang_static_copies(std::vector<int>{3, 3}, shape, Near::kNode, random)[3] == 0);
  CHECK(sglang_static_copies(std::vector<int>{7}, shape, Near::kNode, random) == std::vector<int>(16, 0));
}

TEST_CASE("SGLang static: as shares, one copy per GPU and expert, the same for one seed") {
  // Without the rule about nodes, which SGLang 0.4 lacks, GPUs 1 and 3 use one of expert 2's copies each, and some seed
  // gives GPU 1 that of the other node.
  bool crossed = false;
  for (int seed = 0; seed < 20; ++seed) {
    const SourceShares plain = shares_of("sglang_static", "{near: gpu, seed: " + std::to_string(seed) + "}");
    CHECK(row(plain, 1)[1] + row(plain, 3)[1] == 1);
    crossed = crossed || row(plain, 1)[4] == 1;
  }
  CHECK(crossed);
  const SourceShares s = shares_of("sglang_static", "{}");
  CHECK(s.gpus_per_source == 1);
  CHECK(row(s, 0) == std::vector<float>{1, 1, 1, 0, 0, 0});
  CHECK(row(s, 1) == std::vector<float>{1, 1, 1, 0, 0, 0});  // GPU 0's, in its node
  CHECK(row(s, 2) == std::vector<float>{0, 0, 1, 1, 1, 0});
  CHECK(row(s, 3) == std::vector<float>{0, 0, 1, 0, 1, 1});
}

TEST_CASE("GRACE: predicted loads, conserving for any plan, literal for plans of its own kind") {
  // Even shares: GPU 0 20 + 20, GPU 1 10, GPU 2 20 + 20, GPU 3 20.
  CHECK(predicted_gpu_loads(kLayer, kLoads, Prediction::kConserving) == std::vector<double>{40, 10, 40, 20});
  CHECK_THROWS_AS(predicted_gpu_loads(kLayer, kLoads, Prediction::kEq3Literal), InputError);
  // GPU 0 holds experts 0 and 1 (60 + 30), a copy of expert 0 is on GPU 2. W_p = 90 / 2.
  const LayerPlan one{.slots = {0, 1, 2, 3, 0}, .first_slot = {0, 2, 3, 5}, .copy_rank = {}};
  const std::vector<double> loads{60, 30, 20, 10};
  CHECK(predicted_gpu_loads(one, loads, Prediction::kEq3Literal) == std::vector<double>{90 - 60 + 45, 20, 10 + 45});
  CHECK(predicted_gpu_loads(one, loads, Prediction::kConserving) == std::vector<double>{60, 20, 40});
}

TEST_CASE("GRACE: weighted round robin takes any copy, topology-aware routing the nearest tier") {
  const SourceShares wrr = shares_of("weighted_round_robin");
  CHECK(wrr.gpus_per_source == 4);
  // Expert 0 on GPUs with loads 40, 40, 20: weights 1 : 1 : 2. Expert 2: 1 : 1.
  CHECK(wrr.share == std::vector<float>{0.25F, 0.5F, 1, 0.25F, 0.5F, 0.5F});
  const SourceShares tar = shares_of("topology_aware");
  CHECK(tar.gpus_per_source == 1);
  CHECK(row(tar, 0) == std::vector<float>{1, 1, 1, 0, 0, 0});
  CHECK(row(tar, 1) == std::vector<float>{1, 1, 1, 0, 0, 0});
  CHECK(row(tar, 2) == std::vector<float>{0, 0, 1, 1, 1, 0});
  CHECK(row(tar, 3) == std::vector<float>{0, 0, 1, 0, 1, 1});
  // Expert 0 on GPUs 0 and 1, its loads 20 and 30 with what else is there: from node 1 the weights are 3 : 2.
  const LayerPlan remote{.slots = {0, 0, 1, 2, 3}, .first_slot = {0, 1, 3, 4, 5}, .copy_rank = {}};
  const SourceShares far = choice("topology_aware")->shares({remote, 0, std::vector<double>{40, 10, 5, 5}, kShape});
  CHECK(row(far, 3, 5)[0] == doctest::Approx(0.6));
  CHECK(row(far, 3, 5)[1] == doctest::Approx(0.4));
  // Two copies on GPU 1 divide its part.
  const LayerPlan twice{.slots = {0, 0, 0, 1, 2}, .first_slot = {0, 1, 3, 4, 5}, .copy_rank = {}};
  const SourceShares both = choice("weighted_round_robin")->shares({twice, 0, std::vector<double>{30, 1, 1}, kShape});
  // Loads 10 and 20: weights 2 : 1, and GPU 1's third in two halves.
  CHECK(row(both, 0, 5)[0] == doctest::Approx(2.0 / 3));
  CHECK(row(both, 0, 5)[1] == doctest::Approx(1.0 / 6));
  CHECK(row(both, 0, 5)[2] == doctest::Approx(1.0 / 6));
}

TEST_CASE("every choice: the copies of an expert serve each source's tokens exactly once, on any plan") {
  const ClusterShape shape{.gpus = 8, .gpus_per_node = 4};
  for (const ReplicaChoiceEntry& entry : replica_choices()) {
    CAPTURE(entry.name);
    for (const test::LoadKind kind : test::kLoadKinds) {
      const LoadWindow window = test::random_window(kind, 3, 32, 5);
      for (const char* policy : {"contiguous", "eplb", "craft", "random"}) {
        const PlacementPlan plan =
            test::policy(policy, std::string(policy) == "random" ? "{num_redundant_experts: 40}" : "{}")
                ->plan(window, shape);
        const auto made = choice(std::string(entry.name));
        const std::vector<SourceShares> shares = choose_replicas(*made, plan, window, shape);
        // build() checks that shares sum to 1 for every source and expert.
        const Placement placement = Placement::build(plan, shape, Bytes(1), Bytes(1e6), shares);
        CHECK(placement.layers() == 3);
        CHECK(shares[2].share == choose_replicas(*made, plan, window, shape)[2].share);
      }
    }
  }
}

TEST_CASE("registry of replica choices: names are unique, sentences whole, unknown names list all") {
  std::set<std::string_view> names;
  for (const ReplicaChoiceEntry& entry : replica_choices()) {
    CHECK(names.insert(entry.name).second);
    CHECK(entry.summary.back() == '.');
  }
  const auto error = test::error_of<InputError>([] { choice("topology_awre"); });
  for (const std::string_view name : names) {
    CHECK(error.problem.find(name) != std::string::npos);
  }
  CHECK_THROWS_AS(choice("even", "{seed: 1}"), InputError);
  CHECK_THROWS_AS(choice("vllm_hash", "{tokens: 0}"), InputError);
}

TEST_CASE("smooth weighted round-robin deals in turn: whole tokens, right after a whole period") {
  // Shares 1/2, 1/4, 1/4. Turn 1: the first (credit .5, then -.5). Turn 2: 0, .5, .5: the second. Turn 3: .5, -.25,
  // .75: the third. Turn 4: 1, 0, 0: the first.
  const std::vector<double> shares = {0.5, 0.25, 0.25};
  CHECK(smooth_shares(shares, 1) == std::vector<double>{1, 0, 0});
  CHECK(smooth_shares(shares, 2) == std::vector<double>{0.5, 0.5, 0});
  CHECK(smooth_shares(shares, 4) == shares);
  CHECK(smooth_shares(shares, 8) == shares);
  // Through the choice: Eq. 3's weights of three loads, six tokens.
  const LayerPlan layer{.slots = {0, 0, 1, 2, 3}, .first_slot = {0, 1, 2, 4, 5}, .copy_rank = {}};
  const std::vector<double> loads = {40, 10, 10, 20};  // GPUs: 20, 20, 20, 20
  const SourceShares lots = choice("weighted_round_robin")->shares({layer, 0, loads, kShape});
  const SourceShares turns =
      choice("weighted_round_robin", "{draw: smooth, tokens: 3}")->shares({layer, 0, loads, kShape});
  CHECK(row(lots, 0, 5)[0] == doctest::Approx(0.5));
  CHECK(row(turns, 0, 5)[0] == doctest::Approx(2.0 / 3));  // first, second, first
  CHECK(row(turns, 0, 5)[1] == doctest::Approx(1.0 / 3));
  CHECK(row(turns, 0, 5)[2] == 1);
}
