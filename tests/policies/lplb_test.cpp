// LPLB against the bound that every set of GPUs gives: what has all its copies inside the set, spread over the set. By
// the max-flow min-cut theorem the largest of these bounds is the optimum of the linear programme.
#include <doctest/doctest.h>

#include <algorithm>

#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using epsim::RequestMatrix;
using epsim::Residency;
using epsim::TokenAssignment;

namespace {

TokenAssignment assign(const RequestMatrix& requests, const Residency& held) {
  return epsim::test::step_policy("lplb")->decide(requests, requests, held).tokens;
}

std::int64_t fullest(const TokenAssignment& tokens) {
  std::int64_t most = 0;
  for (int g = 0; g < tokens.gpus; ++g) {
    most = std::max(most, tokens.of_gpu(g));
  }
  return most;
}

std::int64_t optimum(const RequestMatrix& requests, const Residency& held) {
  std::int64_t best = 0;
  for (unsigned set = 1; set < (1U << held.gpus); ++set) {
    std::int64_t forced = 0, gpus = 0;
    for (int g = 0; g < held.gpus; ++g) {
      gpus += set >> g & 1U;
    }
    for (int e = 0; e < held.experts(); ++e) {
      bool inside = true;
      for (int g = 0; g < held.gpus; ++g) {
        inside = inside && (!held.holds(e, g) || (set >> g & 1U));
      }
      forced += inside ? requests.of_expert(e) : 0;
    }
    best = std::max(best, (forced + gpus - 1) / gpus);
  }
  return best;
}

}  // namespace

TEST_CASE("LPLB: two copies take what brings their GPUs level") {
  // Experts 0 (60) and 2 (10) on GPU 0, 1 (30) on GPU 1; a copy of 0 on GPU 1. 50 each: 40 and 20 of expert 0.
  Residency held({0, 1, 0}, 2);
  held.add(0, 1);
  RequestMatrix requests(2, 3);
  requests.at(0, 0) = 60;
  requests.at(0, 1) = 30;
  requests.at(1, 2) = 10;
  const TokenAssignment tokens = assign(requests, held);
  CHECK(tokens.at(0, 0) == 40);
  CHECK(tokens.at(1, 0) == 20);
  CHECK(tokens.at(1, 1) == 30);
  CHECK(tokens.at(0, 2) == 10);
}

TEST_CASE("LPLB: room is made along a chain of copies") {
  // Expert 0 (90) on GPUs 0 and 1, expert 1 (30) on 1 and 2. The mean of 40 is out of reach: GPUs 0 and 1 have all of
  // expert 0 between them, 45 each at least, and expert 1 has to leave GPU 1 for that.
  Residency held({0, 1}, 3);
  held.add(0, 1);
  held.add(1, 2);
  RequestMatrix requests(3, 2);
  requests.at(0, 0) = 90;
  requests.at(1, 1) = 30;
  const TokenAssignment tokens = assign(requests, held);
  CHECK(tokens.of_gpu(0) == 45);
  CHECK(tokens.of_gpu(1) == 45);
  CHECK(tokens.at(2, 1) == 30);
}

TEST_CASE("LPLB reaches the optimum of the linear programme to the token, and no token is lost") {
  for (std::uint64_t index = 0; index < 200; ++index) {
    epsim::RandomStream random(epsim::Seed{24}, "lplb", index);
    const int gpus = 2 + static_cast<int>(random.uniform() * 7), experts = gpus * 3;
    Residency held = epsim::test::contiguous(experts, gpus);
    for (int copies = static_cast<int>(random.uniform() * 2 * gpus); copies > 0; --copies) {
      held.add(static_cast<int>(random.uniform() * experts), static_cast<int>(random.uniform() * gpus));
    }
    RequestMatrix requests(gpus, experts);
    for (std::int64_t& count : requests.count) {
      count = static_cast<std::int64_t>(random.lognormal(3, 1.5));
    }
    const TokenAssignment tokens = assign(requests, held);
    CAPTURE(index);
    CHECK(fullest(tokens) == optimum(requests, held));
    for (int e = 0; e < experts; ++e) {
      CHECK(tokens.of_expert(e) == requests.of_expert(e));
      for (int g = 0; g < gpus; ++g) {
        CHECK((tokens.at(g, e) == 0 || held.holds(e, g)));
      }
    }
  }
}
