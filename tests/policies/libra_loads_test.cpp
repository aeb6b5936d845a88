// Libra on the expert loads of DeepSeek-R1 (58 MoE layers, 256 experts; SGLang's published counts).
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/core/rng.h"
#include "tests/policies/libra_support.h"
#include "tests/support/paths.h"

namespace {

using epsim::LibraRelief;
using epsim::RequestMatrix;
using epsim::Residency;

constexpr int kLoadGpus = 8, kLoadExperts = 256, kFirstMoeLayer = 3, kLoadLayers = 61;
constexpr double kLoadTokens = 4096, kLoadTopK = 8;

// Each GPU serves other requests of the workload: its counts scatter by a tenth around the workload's.
RequestMatrix requests_of(const std::vector<double>& counts, std::uint64_t layer) {
  epsim::RandomStream random(epsim::Seed{31}, "libra loads", layer);
  double sum = 0;
  for (const double x : counts) {
    sum += x;
  }
  RequestMatrix out(kLoadGpus, kLoadExperts);
  for (int g = 0; g < kLoadGpus; ++g) {
    for (int e = 0; e < kLoadExperts; ++e) {
      const double mean = kLoadTokens * kLoadTopK * counts[static_cast<std::size_t>(e)] / sum;
      out.at(g, e) = static_cast<std::int64_t>(mean * random.lognormal(0, 0.1));
    }
  }
  return out;
}

struct Results {
  epsim::test::Reached home, libra;
};
Results over_layers(const nlohmann::json& counts, double accuracy, LibraRelief relief) {
  Results out;
  for (int l = kFirstMoeLayer; l < kLoadLayers; ++l) {
    const auto index = static_cast<std::uint64_t>(l);
    const RequestMatrix requests =
        requests_of(counts.at(static_cast<std::size_t>(l)).get<std::vector<double>>(), index);
    out.home.add(epsim::imbalance(epsim::local_or_home(requests, epsim::test::contiguous(kLoadExperts, kLoadGpus))));
    out.libra.add(epsim::test::libra_imbalance(requests, accuracy, relief, index));
  }
  return out;
}

nlohmann::json libra_workload(const char* name) {
  std::ifstream in(epsim::test::shared_dir() / "data" / "sglang-ep-statistics" / (std::string(name) + ".json"));
  return nlohmann::json::parse(in).at("logical_count");
}

constexpr const char* kWorkloads[] = {"prefill_in512", "prefill_in2048", "prefill_in4096", "decode_in2000out100",
                                      "decode_in500out1500"};

}  // namespace

TEST_CASE("Libra on DeepSeek-R1's loads: 1.05 with perfect prediction and 1.10 with Table 1's, as means over layers") {
  // The worst of 58 layers stays above: its lightest GPUs run out of the N - L = 4 copies that phase 2 has for them,
  // and no sharding over the copies it made could reach 1.05 (measured: 1.10 and 1.14; 1.17 with relief `rebalanced`).
  for (const char* name : kWorkloads) {
    CAPTURE(name);
    const nlohmann::json counts = libra_workload(name);
    for (const LibraRelief relief : {LibraRelief::kRebalanced, LibraRelief::kSimulated}) {
      const bool simulated = relief == LibraRelief::kSimulated;
      CAPTURE(simulated);
      const Results perfect = over_layers(counts, 1.0, relief);
      CHECK(perfect.home.mean() > 1.4);
      CHECK(perfect.libra.mean() <= (simulated ? 1.025 : 1.05));
      CHECK(perfect.libra.worst <= (simulated ? 1.11 : 1.18));
      for (const double accuracy : {epsim::test::kQwen3Accuracy[0], epsim::test::kQwen3Accuracy[1],
                                    epsim::test::kGlm45Accuracy[0], epsim::test::kGlm45Accuracy[3]}) {
        CAPTURE(accuracy);
        const Results table_1 = over_layers(counts, accuracy, relief);
        CHECK(table_1.libra.mean() <= 1.06);
        CHECK(table_1.libra.worst <= (simulated ? 1.15 : 1.18));
      }
    }
  }
}

TEST_CASE("Libra on DeepSeek-R1's loads: planning copies for the receiving GPU alone, as printed, misses the bounds") {
  for (const char* name : kWorkloads) {
    CAPTURE(name);
    const nlohmann::json counts = libra_workload(name);
    const Results printed = over_layers(counts, 1.0, LibraRelief::kOwnRequests);
    CHECK(printed.libra.mean() > 1.12);
    CHECK(printed.libra.mean() < printed.home.mean() - 0.2);
  }
}
