// soak_serving FIRST COUNT: the random deployments of deployment_test.cpp, and those of losses_test.cpp,
// that lose hardware, as many as wanted. Exit code 1 when one is wrong.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "tests/cluster/random_deployment.h"

int main(int argc, char** argv) {
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000;
  epsim::test::DeploymentSums sums;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = first; i < first + count; ++i) {
    std::string problem;
    try {
      problem = epsim::test::check_random_deployment(i, sums);
      problem = problem.empty() ? epsim::test::check_random_losses(i, sums) : problem;
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty()) {
      ++wrong;
      fmt::print("deployment {}: {}\n", i, problem);
    }
  }
  fmt::print(
      "{} deployments, {} wrong; {} transfers, {} retractions, {} tokens from prefix caches, {} requests lost and {} "
      "started anew\n",
      count, wrong, sums.transfers, sums.retractions, sums.hits, sums.failed, sums.retries);
  return wrong == 0 ? 0 : 1;
}
