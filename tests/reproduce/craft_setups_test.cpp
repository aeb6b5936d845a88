// The setups that the program carries are CRAFT's (arXiv 2603.28768, Sec. 5.1).
#include "sim/reproduce/craft_setups.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <set>

#include "sim/cluster/run_policy.h"

namespace epsim {
namespace {

// Planning from few batches: the number of copies does not depend on it.
const std::vector<std::string> kSmall{"plan_loads.steps=4", "loads.steps=2", "requests.count=10"};

TEST_CASE("names say model, workload and nodes") {
  std::map<std::string_view, int> nodes;
  for (const CraftSetup& setup : craft_setups()) {
    nodes[setup.name] = setup.nodes();
    if (setup.name != "da8" && setup.name != "ke6" && setup.name != "kl12") {
      continue;  // one of each size; all are alike but for the preset
    }
    const Scenario s = craft_scenario(setup, CraftMemory::kOneRule, kSmall, {"base"});
    CAPTURE(setup.name);
    CHECK(s.cluster.nodes == setup.nodes());
    CHECK(s.model.experts == (setup.kimi() ? 384 : 256));
    CHECK(s.parallelism.dp_ranks() == setup.nodes());  // one DP rank per node
    CHECK(s.serving.token_budget == 4096);
    CHECK(s.requests.requests.front().input_tokens == 4096);
    CHECK(s.requests.requests.front().output_tokens == 256);
  }
  CHECK(nodes.size() == 14);
  CHECK(nodes.at("de8") == 8);
  CHECK(nodes.at("kl12") == 12);
}

// The interval of a mean over setups takes them for independent: no seed of one is a seed of another, for as many seeds
// as files leave room for.
TEST_CASE("setups are drawn apart") {
  const std::vector<std::string> no_model{"loads={kind: uniform}", "plan_loads={kind: uniform}", "requests.count=1"};
  std::set<std::uint64_t> taken;
  for (const CraftSetup& setup : craft_setups()) {
    const Scenario s = craft_scenario(setup, CraftMemory::kOneRule, no_model, {"base"});
    for (std::uint64_t k = 0; k < 10; ++k) {
      CAPTURE(setup.name);
      CHECK(taken.insert(static_cast<std::uint64_t>(s.seed) + k).second);
    }
  }
}

// acceptance of the KV arithmetic: KV pool = 59.8 GiB - 1.26 N - weights (24.70 GiB on D*8 with everything split by 8),
// so 25.02 GiB; EPLB's 58 copies of 84 MiB take 4.758 GiB of it: 19.0 %.
TEST_CASE("the memory rule gives the KV losses that the paper states for D*8 and K*12") {
  const auto lost = [](std::string_view name, CraftMemory memory, const std::string& policy) {
    for (const CraftSetup& setup : craft_setups()) {
      if (setup.name == name) {
        const Scenario s = craft_scenario(setup, memory, kSmall, {policy});
        return prepare_run(s, s.policies.front()).last().memory.copies_loss;
      }
    }
    return -1.0;
  };
  CHECK(lost("de8", CraftMemory::kOneRule, "eplb") == doctest::Approx(0.190).epsilon(0.005));
  CHECK(lost("ke12", CraftMemory::kOneRule, "eplb") == doctest::Approx(0.240).epsilon(0.005));
  CHECK(lost("ke6", CraftMemory::kOneRule, "eplb") == doctest::Approx(0.587).epsilon(0.005));
  CHECK(lost("ke6", CraftMemory::kPaper, "eplb") == doctest::Approx(0.75).epsilon(0.01));
  CHECK(lost("ke6", CraftMemory::kPaper, "cra8") == doctest::Approx(0.10).epsilon(0.01));
}

}  // namespace
}  // namespace epsim
