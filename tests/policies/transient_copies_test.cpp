// MoonEP and ECHO by hand. Sources: MoonshotAI/MoonEP, tests/planning_reference.py; Megatron-LM PR 2368,
// offloading_planner.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using namespace epsim;

namespace {

StepDecision decide(const char* policy, const RequestMatrix& requests, const Residency& home) {
  return test::step_policy(policy)->decide(requests, requests, home);
}

std::vector<std::int64_t> loads(const StepDecision& d) {
  std::vector<std::int64_t> out;
  for (int g = 0; g < d.tokens.gpus; ++g) {
    out.push_back(d.tokens.of_gpu(g));
  }
  return out;
}

}  // namespace

TEST_CASE("MoonEP: the fullest GPU fills the emptiest to the mean, from its largest expert") {
  // Loads 9000, 1500, 1500: mean 4000. GPU 1 and GPU 2 each get 2500, both of expert 0.
  const Residency home = test::contiguous(6, 3);
  RequestMatrix requests(3, 6);
  const std::vector<std::int64_t> tokens{7000, 2000, 1000, 500, 900, 600};
  for (int e = 0; e < 6; ++e) {
    requests.at(e % 3, e) = tokens[static_cast<std::size_t>(e)];
  }
  const StepDecision d = decide("moonep", requests, home);
  CHECK(loads(d) == std::vector<std::int64_t>{4000, 4000, 4000});
  CHECK(d.tokens.at(0, 0) == 2000);
  CHECK(d.tokens.at(1, 0) == 2500);
  REQUIRE(d.copies.size() == 2);
  CHECK(d.copies[0].gpu == 1);
  CHECK(d.copies[1].gpu == 2);
  // 3 x 1024 tokens make a prefill; this is fewer.
  requests.at(0, 0) = 0;
  requests.at(1, 1) = 0;
  CHECK(!decide("moonep", requests, home).planned);
}

TEST_CASE("MoonEP: exact balance in a domain, and a GPU receives from one other, so that its slots suffice") {
  for (std::uint64_t i = 0; i < 50; ++i) {
    RandomStream random(Seed{8}, "moonep", i);
    const int gpus = 8, experts = 32;
    Residency home = test::contiguous(experts, gpus);
    home.gpus_per_node = i % 2 == 0 ? 8 : 4;
    RequestMatrix requests(gpus, experts);
    for (int e = 0; e < experts; ++e) {
      requests.at(static_cast<int>(random.below(gpus)), e) = static_cast<std::int64_t>(random.lognormal(8, 1.5));
    }
    requests.at(0, 0) += 1024 * gpus;
    const StepDecision d = decide("moonep", requests, home);
    for (int first = 0; first < gpus; first += home.gpus_per_node) {
      std::int64_t all = 0, most = 0;
      for (int g = first; g < first + home.gpus_per_node; ++g) {
        all += d.tokens.of_gpu(g);
        most = std::max(most, d.tokens.of_gpu(g));
      }
      CHECK(most == (all + home.gpus_per_node - 1) / home.gpus_per_node);
    }
    std::vector<std::set<int>> from(gpus);
    for (const ExpertCopy& copy : d.copies) {
      from[static_cast<std::size_t>(copy.gpu)].insert(home.home_of(copy.expert));
      CHECK(copy.gpu / home.gpus_per_node == home.home_of(copy.expert) / home.gpus_per_node);
    }
    CHECK(std::all_of(from.begin(), from.end(), [](const std::set<int>& homes) { return homes.size() <= 1; }));
    CHECK(d.most_extra <= experts / gpus);
  }
}

TEST_CASE(
    "ECHO: a GPU's overflow is what its larger experts have beyond the mean; each GPU with room takes one expert's") {
  // Loads 11000, 1000, 3000: mean 5000. On GPU 0 experts 1, 2, 0 add up to 3000, 6000, 11000: 1000 of expert 2 and 5000
  // of expert 0 overflow. GPU 1 takes 4000 of expert 0. GPU 2 has room for 2000: expert 0 has 1000 left, as many as
  // expert 2, and comes first. Expert 2's find no slot.
  const Residency home = test::contiguous(9, 3);
  RequestMatrix requests(3, 9);
  const std::vector<std::int64_t> tokens{5000, 3000, 3000, 400, 300, 300, 1000, 1000, 1000};
  for (int e = 0; e < 9; ++e) {
    requests.at(e % 3, e) = tokens[static_cast<std::size_t>(e)];
  }
  const StepDecision d = decide("echo", requests, home);
  CHECK(loads(d) == std::vector<std::int64_t>{6000, 5000, 4000});
  CHECK(d.tokens.at(1, 0) == 4000);
  CHECK(d.tokens.at(2, 0) == 1000);
  CHECK(d.tokens.at(0, 2) == 3000);
  CHECK(d.most_extra == 1);
  // 3 x 1024 tokens make a prefill; these are 3071.
  RequestMatrix few(3, 9);
  few.at(0, 0) = 3071;
  CHECK(!decide("echo", few, home).planned);
  few.at(0, 0) = 3072;
  CHECK(decide("echo", few, home).planned);
}
