// HarMoEny, least-loaded EP, FasterMoE and Lina on cases small enough to do by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using epsim::RequestMatrix;
using epsim::Residency;
using epsim::TokenAssignment;

namespace {

RequestMatrix random_requests(int gpus, int experts, std::uint64_t index) {
  epsim::RandomStream random(epsim::Seed{21}, "sharding", index);
  RequestMatrix out(gpus, experts);
  for (std::int64_t& count : out.count) {
    count = static_cast<std::int64_t>(random.lognormal(4, 1.5));
  }
  return out;
}

TokenAssignment tokens_by(const std::string& policy, const std::string& options, const RequestMatrix& requests,
                          const Residency& home) {
  return epsim::test::step_policy(policy, options)->decide(requests, requests, home).tokens;
}

}  // namespace

TEST_CASE("HarMoEny: moves go from the busiest to the lightest GPU, source by source") {
  // Two GPUs, one expert each; q = 10. Expert 0 has 60 tokens of GPU 0 and 40 of GPU 1, expert 1 has 20: loads 100, 20,
  // mean 60. The largest source is GPU 0 (60): min(60, 60 - 20) = 40 move, and both are at the mean.
  RequestMatrix requests(2, 2);
  requests.at(0, 0) = 60;
  requests.at(1, 0) = 40;
  requests.at(0, 1) = 20;
  const Residency home = epsim::test::contiguous(2, 2);
  const TokenAssignment moved = tokens_by("harmoeny", "{min_tokens: 10}", requests, home);
  CHECK(moved.at(0, 0) == 20 + 40);
  CHECK(moved.at(1, 0) == 40);
  CHECK(moved.at(1, 1) == 20);
  // With q = 50 the lightest GPU has no room for a worthwhile move (20 + 50 > 60).
  CHECK(tokens_by("harmoeny", "{min_tokens: 50}", requests, home).at(0, 0) == 100);
}

TEST_CASE("HarMoEny: every token once, and the busiest GPU never busier") {
  for (std::uint64_t index = 0; index < 10; ++index) {
    const RequestMatrix requests = random_requests(8, 32, index);
    const Residency home = epsim::test::contiguous(32, 8);
    const TokenAssignment moved = tokens_by("harmoeny", "{}", requests, home);
    for (int e = 0; e < 32; ++e) {
      CHECK(moved.of_expert(e) == requests.of_expert(e));
    }
    CHECK(*std::ranges::min_element(moved.count) >= 0);
    CHECK(epsim::imbalance(moved) <= epsim::imbalance(epsim::local_or_home(requests, home)));
    CHECK(epsim::imbalance(moved) < 1.1);
  }
}

TEST_CASE("least-loaded EP: home takes what fits, the rest spills with its weights") {
  // One expert on each of three GPUs: 900, 300, 300; mean 500, capacity 550.
  RequestMatrix requests(3, 3);
  requests.at(0, 0) = 900;
  requests.at(1, 1) = 300;
  requests.at(2, 2) = 300;
  const Residency home = epsim::test::contiguous(3, 3);
  // 550 stay; GPU 1 (300 expected) has room for 250 of the 350, GPU 2 takes the last 100.
  const TokenAssignment plan = tokens_by("least_loaded_ep", "{min_chunk: 100}", requests, home);
  CHECK(plan.at(0, 0) == 550);
  CHECK(plan.at(1, 0) == 250);
  CHECK(plan.at(2, 0) == 100);
  // No chunk of 300 fits, and the last one is larger than any room: the lightest helper is forced to take all 350.
  const TokenAssignment forced = tokens_by("least_loaded_ep", "{min_chunk: 300}", requests, home);
  CHECK(forced.at(1, 0) == 350);
  // GPU 1 then has room for 200 of its own 300 (550 - 350) and gives the last 100 to GPU 2.
  CHECK(forced.at(1, 1) == 200);
  CHECK(forced.at(2, 1) == 100);
  CHECK(forced.at(2, 0) == 0);
  // 900 / 500 = 1.8 is above the threshold of 1.3, but not above 2: nothing moves.
  const TokenAssignment tolerant = tokens_by("least_loaded_ep", "{min_imbalance: 2.0}", requests, home);
  CHECK(tolerant.count == epsim::local_or_home(requests, home).count);
}

TEST_CASE("least-loaded EP: a home that is full without the expert gives all of it away") {
  // GPU 0 holds experts 0 (800) and 1 (400), GPU 1 experts 2 and 3 (0, 0): mean 600, capacity 660. Expert 0 first: GPU
  // 0 still expects 400 for expert 1, so 260 stay and 540 go. Then expert 1: GPU 0 has 260, all 400 fit.
  RequestMatrix requests(2, 4);
  requests.at(0, 0) = 800;
  requests.at(1, 1) = 400;
  const TokenAssignment plan = tokens_by("least_loaded_ep", "{min_chunk: 1}", requests, epsim::test::contiguous(4, 2));
  CHECK(plan.at(0, 0) == 260);
  CHECK(plan.at(1, 0) == 540);
  CHECK(plan.at(0, 1) == 400);
  for (std::uint64_t index = 50; index < 60; ++index) {
    const RequestMatrix many = random_requests(8, 32, index);
    const TokenAssignment spread =
        tokens_by("least_loaded_ep", "{min_chunk: 64}", many, epsim::test::contiguous(32, 8));
    for (int e = 0; e < 32; ++e) {
      CHECK(spread.of_expert(e) == many.of_expert(e));
    }
    CHECK(epsim::imbalance(spread) <= 1.3);
  }
}

TEST_CASE("FasterMoE: shadowing stops where a broadcast costs more than it saves") {
  // The experts copied to the second GPU when all are at home on the first.
  const auto shadows = [](const std::string& options, const std::vector<std::int64_t>& tokens) {
    RequestMatrix requests(2, static_cast<int>(tokens.size()));
    std::copy(tokens.begin(), tokens.end(), requests.count.begin());
    const Residency home(std::vector<int>(tokens.size(), 0), 2);
    std::vector<int> out;
    for (const epsim::ExpertCopy& copy :
         epsim::test::step_policy("fastermoe", options)->decide(requests, requests, home).copies) {
      CHECK(copy.gpu == 1);
      out.push_back(copy.expert);
    }
    return out;
  };
  // Hidden 1, an expert twice as wide, four bytes, 8 flop/s, 4 B/s: compute 1 s and sending 1 s a token, a broadcast
  // 4 s. A step of B tokens takes 7 B. 10: 70 s. Shadow it: 7 x 5 + 4 = 39. The next too: 7 x 4 + 8 = 36. Then
  // 7 x 4 + 12 = 40: no.
  const std::string unit = "{hidden: 1, compute: 8F/s, network: 4B/s}";
  CHECK(shadows(unit, {4, 10, 4, 5}) == std::vector<int>{1, 3});
  CHECK(shadows(unit, {5, 5, 5}).empty());
  CHECK(shadows(unit, {5}).empty());
  // Hidden 4, computing next to free: a token takes 4 x 4 s on its way there and back, an expert's two matrices 2 x 32 s.
  const std::string four = "{hidden: 4, compute: 1PF/s, network: 4B/s}";
  CHECK(shadows(four, {8, 5}).empty());                  // saves 48 s
  CHECK(shadows(four, {10, 5}) == std::vector<int>{0});  // saves 80 s
}

TEST_CASE("Lina: copies follow popularity, each GPU gets N, and the tokens split evenly") {
  // Experts 0 1 | 2 3 on two GPUs, one extra each. Expert 0 (9) -> GPU 1; then 9/2 is still most, but GPU 0 has it at
  // home, so the next is expert 3 (3) -> GPU 0.
  RequestMatrix predicted(2, 4), requests(2, 4);
  predicted.count = {9, 1, 0, 0, 0, 0, 2, 3};
  requests.at(1, 0) = 9;
  requests.at(0, 3) = 4;
  const Residency home = epsim::test::contiguous(4, 2);
  const epsim::StepDecision next = epsim::test::step_policy("lina", "{n_extra: 1}")->decide(requests, predicted, home);
  REQUIRE(next.copies.size() == 2);
  CHECK(next.copies[0].expert == 0);
  CHECK(next.copies[0].gpu == 1);
  CHECK(next.copies[1].expert == 3);
  CHECK(next.copies[1].gpu == 0);
  CHECK(next.tokens.at(0, 0) == 5);  // the odd token goes to the lower GPU
  CHECK(next.tokens.at(1, 0) == 4);
  CHECK(next.tokens.at(0, 3) == 2);
  // More room than experts: every GPU holds everything, and no more.
  const auto roomy = epsim::test::step_policy("lina", "{n_extra: 9}");
  CHECK(roomy->decide(requests, predicted, home).copies.size() == 4);
  CHECK(roomy->decide(requests, predicted, home).most_extra == 2);
  // Nothing predicted, nothing copied.
  CHECK(roomy->decide(requests, RequestMatrix(2, 4), home).copies.empty());
}
