// Waterfill by hand. Source: SGLang, layers/moe/deepep_waterfill.py at 0389b97.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/policies/support.h"
#include "tests/support/residency.h"

using epsim::RequestMatrix;
using epsim::SharedDispatch;

namespace {

// Two GPUs of 100 tokens each, top-1, an expert on each: `hot` of every GPU's tokens use expert 0.
RequestMatrix two_gpus(std::int64_t hot) {
  RequestMatrix out(2, 2);
  for (int g = 0; g < 2; ++g) {
    out.at(g, 0) = hot;
    out.at(g, 1) = 100 - hot;
  }
  return out;
}

// With an expert on each GPU.
SharedDispatch shares_of(const RequestMatrix& requests, const std::string& options = "{}") {
  const auto policy = epsim::test::step_policy("waterfill", options);
  return policy->decide(requests, requests, epsim::test::contiguous(requests.gpus, requests.gpus)).shared;
}

}  // namespace

TEST_CASE("Waterfill: shared rows go by the room under the line, a tenth more to the own GPU") {
  // Loads with the tokens that live there: 160 + 100, 40 + 100. H = (400 + 200) / 2 = 300: slacks 40 and 160; no load is
  // above H, so that any GPU may be chosen. From GPU 0: 40 against 160 / 1.1; from GPU 1: 40 / 1.1 against 160.
  const SharedDispatch all = shares_of(two_gpus(80));
  CHECK(!all.only_visited);
  CHECK(all.share[0] == doctest::Approx(40 / (40 + 160 / 1.1)));
  CHECK(all.share[1] == doctest::Approx(160 / 1.1 / (40 + 160 / 1.1)));
  CHECK(all.share[2] == doctest::Approx(40 / 1.1 / (40 / 1.1 + 160)));
}

TEST_CASE("Waterfill: with a load above the line tokens choose among GPUs that they visit") {
  // Three GPUs of 100 tokens, top-1, an expert on each: all use expert 0.
  RequestMatrix requests(3, 3);
  for (int g = 0; g < 3; ++g) {
    requests.at(g, 0) = 100;
  }
  // Loads 300 + 100, 100, 100; H = (600 + 300) / 3 = 300: GPU 0 is above, slacks 0, 200, 200.
  const SharedDispatch shared = shares_of(requests);
  CHECK(shared.only_visited);
  // GPU 0's tokens visit GPU 0 alone and stay; those of GPU 1 visit it and 0, where there is no room.
  CHECK(shared.share[0] == 1.0);
  CHECK(shared.share[4] == 1.0);
  CHECK(shared.share[8] == 1.0);
}

TEST_CASE("Waterfill with own counts: each GPU fills up by its own tokens, and may choose any") {
  // Of GPU 0's 100 tokens 80 go to GPU 0: H = (100 + 100) / 2 = 100, slacks 20 and 80.
  const SharedDispatch own = shares_of(two_gpus(80), "{own_counts: true}");
  CHECK(!own.only_visited);
  CHECK(own.share[0] == doctest::Approx(20 / (20 + 80 / 1.1)));
  CHECK(own.share[3] == doctest::Approx(80 / (80 + 20 / 1.1)));
}

TEST_CASE("Waterfill: few tokens stay where they live; every token has one place") {
  RequestMatrix few = two_gpus(80);
  few.at(0, 0) = 60;
  few.at(0, 1) = 3;  // 63 tokens
  const SharedDispatch shared = shares_of(few);
  CHECK(shared.share[0] == 1.0);
  CHECK(shared.share[3] < 1.0);
  CHECK(std::accumulate(shared.share.begin(), shared.share.end(), 0.0) == doctest::Approx(2.0));
}
