// CRAFT on the expert loads of DeepSeek-R1 (58 MoE layers, 256 experts; SGLang's published counts).
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "policies/placement/craft/benefit.h"
#include "tests/policies/support.h"
#include "tests/support/paths.h"

namespace {

constexpr std::ptrdiff_t kDenseLayers = 3;

epsim::LoadWindow workload(const std::string& name) {
  std::ifstream in(epsim::test::shared_dir() / "data" / "sglang-ep-statistics" / (name + ".json"));
  auto rows = nlohmann::json::parse(in).at("logical_count").get<std::vector<std::vector<double>>>();
  rows.erase(rows.begin(), rows.begin() + kDenseLayers);
  return epsim::test::window(rows);
}

}  // namespace

TEST_CASE("CRAFT Figure 8 on DeepSeek-R1's loads: from 16 to 32 copies a layer balance rises by under two points") {
  for (const char* name : {"prefill_in2048", "prefill_in4096"}) {
    CAPTURE(name);
    const epsim::LoadWindow load = workload(name);
    REQUIRE(load.layers() == 58);
    const epsim::GainTable table = epsim::estimate_gains(load, epsim::CraftLayout::global(64), {});
    std::vector<double> mean;
    for (const auto& gains : table.gain) {
      mean.push_back(std::accumulate(gains.begin(), gains.end(), 0.0) / static_cast<double>(gains.size()));
    }
    REQUIRE(table.counts[4] == 16);
    CHECK(mean[4] > 0.3);
    CHECK(mean[5] - mean[4] < 0.02);
    CHECK(mean[6] - mean[5] < 0.03);  // a copy on every GPU also makes the GPUs equally large again
  }
}
