// UltraEP by hand. Source: Dots-Infra/UltraEP, csrc/kernels/placement.cu.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using epsim::RequestMatrix;
using epsim::Residency;
using epsim::StepDecision;

namespace {

StepDecision decide(const RequestMatrix& requests, const Residency& home, const std::string& options = "{}") {
  return epsim::test::step_policy("ultraep", options)->decide(requests, requests, home);
}

// Of the first of several experts, one on each GPU, that alone has tokens: every other GPU gets one.
std::vector<epsim::ExpertCopy> copies_of_one(int copies) {
  RequestMatrix requests(copies + 1, copies + 1);
  requests.at(0, 0) = 10000 * (copies + 1);
  return decide(requests, epsim::test::contiguous(copies + 1, copies + 1)).copies;
}

}  // namespace

TEST_CASE("UltraEP: the fullest GPU hands its hottest expert to the GPU with most room") {
  // Loads 9000, 1000, 2000 on three GPUs; mean 4000, 1 % above: 4040. GPU 0 is 4960 over: 3040 fit on GPU 1 and the
  // 1920 left on GPU 2, which has room for 2040.
  const Residency home = epsim::test::contiguous(3, 3);
  RequestMatrix requests(3, 3);
  requests.at(0, 0) = 9000;
  requests.at(1, 1) = 1000;
  requests.at(2, 2) = 2000;
  const StepDecision d = decide(requests, home);
  CHECK(d.tokens.at(0, 0) == 4040);
  CHECK(d.tokens.at(1, 0) == 3040);
  CHECK(d.tokens.at(2, 0) == 1920);
  REQUIRE(d.copies.size() == 2);
  CHECK(d.copies[0].from == -1);
  CHECK(d.most_extra == 1);
  // No copy of 6000 tokens leaves GPU 0 the fuller: nothing is handed over.
  const StepDecision coarse = decide(requests, home, "{min_tokens: 6000}");
  CHECK(coarse.tokens.at(0, 0) == 9000);
  CHECK(coarse.copies.empty());
  const StepDecision decode = decide(requests, home, "{prefill_tokens: 4001}");
  CHECK(!decode.planned);
  CHECK(decode.tokens.at(0, 0) == 9000);
}

TEST_CASE("UltraEP: weights stay inside the NVLink domain") {
  // Two nodes of two GPUs; all tokens on the first node's GPU 0.
  Residency home = epsim::test::contiguous(4, 4);
  home.gpus_per_node = 2;
  RequestMatrix requests(4, 4);
  requests.at(3, 0) = 8000;
  const StepDecision d = decide(requests, home);
  CHECK(d.tokens.at(0, 0) == 4040);  // 1 % above the domain's mean
  CHECK(d.tokens.at(1, 0) == 3960);
  CHECK(d.tokens.of_gpu(2) + d.tokens.of_gpu(3) == 0);
}

TEST_CASE("UltraEP: an expert of many copies goes through relays") {
  // The blog's figure: nine copies, three relays, each for two more.
  const auto copies = copies_of_one(9);
  REQUIRE(copies.size() == 9);
  int from_home = 0;
  for (const epsim::ExpertCopy& copy : copies) {
    from_home += copy.from < 0 ? 1 : 0;
  }
  CHECK(from_home == 3);
  CHECK(copies[1].from == 1);
  CHECK(copies[5].from == 4);
  const auto five = copies_of_one(5);
  REQUIRE(five.size() == 5);
  CHECK(five[4].from == -1);
  // From six copies on through relays: the square root of six, rounded up.
  const auto six = copies_of_one(6);
  CHECK(std::count_if(six.begin(), six.end(), [](const epsim::ExpertCopy& copy) { return copy.from == -1; }) == 3);
}

TEST_CASE("UltraEP: skewed prefill loads come within its authors' 1.04 of the mean, in its slots") {
  const Residency home = epsim::test::contiguous(256, 64);
  for (std::uint64_t index = 0; index < 10; ++index) {
    epsim::RandomStream random(epsim::Seed{24}, "ultraep", index);
    RequestMatrix requests(64, 256);
    std::vector<double> popularity;
    for (int e = 0; e < 256; ++e) {
      popularity.push_back(random.lognormal(0, 0.8));
    }
    for (int g = 0; g < 64; ++g) {
      for (int e = 0; e < 256; ++e) {
        requests.at(g, e) = static_cast<std::int64_t>(250 * popularity[static_cast<std::size_t>(e)]);
      }
    }
    const double before = epsim::imbalance(local_or_home(requests, home));
    const StepDecision d = decide(requests, home);
    CHECK(before > 1.3);
    CHECK(epsim::imbalance(d.tokens) < 1.04);
    CHECK(d.most_extra <= 2);
  }
}
