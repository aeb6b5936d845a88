// Replica choice through the program: what a policy's `replica_choice` changes, and what it must not.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

// Bytes that left nodes, in GB: links.csv has link, rate and bytes in its first columns.
double sent_between_nodes(const std::string& links) {
  std::istringstream rows(links);
  std::string row;
  double sum = 0;
  while (std::getline(rows, row)) {
    if (row.find(".nic") != std::string::npos && row.find(".out,") != std::string::npos) {
      const std::size_t rate = row.find(',') + 1, bytes = row.find(',', rate) + 1;
      sum += std::stod(row.substr(bytes));
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a policy's replica choice keeps tokens near, at the same memory and with every assignment executed") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "compare " + small_scenario() +
                                          " --policies eplb,spelled_out,near -o out"
                                          " --set policies.spelled_out.kind=eplb"
                                          " --set policies.spelled_out.replica_choice.kind=even"
                                          " --set policies.near.kind=eplb"
                                          " --set policies.near.replica_choice.kind=topology_aware");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const auto file = [&](const std::string& policy, const char* name) {
    return epsim::test::slurp(dir / ("out/" + policy + "/" + name));
  };
  CHECK(file("spelled_out", "links.csv") == file("eplb", "links.csv"));
  CHECK(file("spelled_out", "requests.csv") == file("eplb", "requests.csv"));
  const double even = sent_between_nodes(file("eplb", "links.csv")),
               near = sent_between_nodes(file("near", "links.csv"));
  CHECK(even > 0);
  CHECK(near < even * 0.99);
  const auto pool = [&](const std::string& policy) {
    return nlohmann::json::parse(file(policy, "summary.json")).at("kv").at("kv_pool_gib_per_gpu").get<double>();
  };
  CHECK(pool("near") == pool("eplb"));
}

TEST_CASE("a replica choice that does not exist is refused with the names that do") {
  const TempDir dir;
  const Outcome done = run_epsim(
      dir, "validate " + small_scenario() + " --policies eplb --set policies.eplb.replica_choice.kind=nearest");
  CHECK(done.exit_code == 2);
  CHECK(done.err.find("policies.eplb.replica_choice") != std::string::npos);
  CHECK(done.err.find("topology_aware") != std::string::npos);
  CHECK(run_epsim(dir, "list policies").out.find("ascend_rotation") != std::string::npos);
}
