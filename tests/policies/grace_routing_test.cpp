// GRACE-MoE's component study (Sec. 5.3, Figure 5) on real tokens: gpt-oss-20b, 32 experts, top-4, 24 layers, on 2
// nodes of 2 GPUs. The model is not the paper's, so the signs are checked, not the sizes; rows are sent once per GPU
// for all components alike. Measured: cross-node rows -31 % by grouping, +8 % by copies with weighted round robin, -14
// % by topology-aware routing; load deviation +162 %, -62 %, +9 %. Rows inside nodes rise by 4 % with topology-aware
// routing where the paper's fall by 6.7 %: what it keeps from other nodes goes to the node's other GPU here.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "models/network/token_traffic.h"
#include "policies/placement/grace/grace.h"
#include "policies/replica_choice/registry.h"
#include "sim/domain/affinity.h"
#include "tests/policies/support.h"
#include "tests/support/paths.h"

using namespace epsim;

namespace {

constexpr RoutingShape kRouting{.layers = 24, .experts = 32, .top_k = 4};
constexpr ClusterShape kCluster{.gpus = 4, .gpus_per_node = 2};
constexpr std::size_t kTokens = 120000, kBlock = 1000;

// The first kTokens tokens, uint8[token][24][4].
std::vector<std::uint8_t> read_tokens() {
  const auto path = test::shared_dir() / "data/gpt-oss-20b-routing/routing_u8_T24x4.bin.gz";
  std::vector<std::uint8_t> ids(kTokens * kRouting.ids_per_token());
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  const int got = gzread(file, ids.data(), static_cast<unsigned>(ids.size()));
  gzclose(file);
  REQUIRE(got == static_cast<int>(ids.size()));
  return ids;
}

// Blocks of tokens in turn: one half to plan from, the other to run on.
std::vector<std::uint8_t> half(const std::vector<std::uint8_t>& ids, std::size_t which) {
  std::vector<std::uint8_t> out;
  const std::size_t bytes = kBlock * kRouting.ids_per_token();
  for (std::size_t at = which * bytes; at < ids.size(); at += 2 * bytes) {
    out.insert(out.end(), ids.begin() + static_cast<std::ptrdiff_t>(at),
               ids.begin() + static_cast<std::ptrdiff_t>(at + bytes));
  }
  return out;
}

// Per token and layer, averaged over layers: rows to other nodes, rows to other GPUs of the node, and the deviation of
// GPU loads (assignments per token).
struct Outcome {
  double cross_node = 0, in_node = 0, deviation = 0;
};

Outcome run(const Placement& placement, const std::vector<std::uint8_t>& ids) {
  const std::size_t tokens = ids.size() / kRouting.ids_per_token(), k = static_cast<std::size_t>(kRouting.top_k);
  std::vector<std::int32_t> gpu(tokens);  // data parallel: tokens are dealt to the GPUs
  for (std::size_t t = 0; t < tokens; ++t) {
    gpu[t] = static_cast<std::int32_t>(t) % kCluster.gpus;
  }
  std::vector<std::uint8_t> of_layer(tokens * k);
  Outcome out;
  for (int l = 0; l < kRouting.layers; ++l) {
    for (std::size_t t = 0; t < tokens; ++t) {
      const auto from =
          ids.begin() + static_cast<std::ptrdiff_t>(t * kRouting.ids_per_token() + static_cast<std::size_t>(l) * k);
      std::copy(from, from + kRouting.top_k, of_layer.begin() + static_cast<std::ptrdiff_t>(t * k));
    }
    LayerTraffic traffic;
    count_token_traffic<std::uint8_t>(placement, l, kCluster, Dedup::kGpu, of_layer, gpu, traffic);
    const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
    const double scale = 1.0 / static_cast<double>(tokens) / kRouting.layers;
    out.cross_node += sum(traffic.inter_out) * scale;
    out.in_node += sum(traffic.intra_out) * scale;
    const double mean = sum(traffic.executed) / kCluster.gpus;
    double squares = 0;
    for (const double load : traffic.executed) {
      squares += (load - mean) * (load - mean);
    }
    out.deviation += std::sqrt(squares / kCluster.gpus) * scale;
  }
  return out;
}

Placement placed(const PlacementPlan& plan, const LoadWindow& window, const char* choice) {
  ConfigReader options = Config::from_text("{}", "choice").root();
  return Placement::build(plan, kCluster, Bytes(1), Bytes(1e9),
                          choose_replicas(*make_replica_choice(choice, options), plan, window, kCluster));
}

}  // namespace

TEST_CASE("GRACE Figure 5 on gpt-oss-20b: grouping saves traffic and skews load, copies and routing mend both") {
  const std::vector<std::uint8_t> ids = read_tokens();
  const LoadWindow window = window_from_routing<std::uint8_t>(half(ids, 0), kRouting, "gpt-oss-20b");
  const std::vector<std::uint8_t> tokens = half(ids, 1);
  const auto plan = [&](const char* options) { return test::policy("grace", options)->plan(window, kCluster); };

  const Outcome vanilla = run(placed(test::policy("contiguous")->plan(window, kCluster), window, "even"), tokens);
  const Outcome grouped = run(placed(plan("{replication: none}"), window, "even"), tokens);
  CHECK(grouped.cross_node < vanilla.cross_node);  // G06
  CHECK(grouped.in_node < vanilla.in_node);        // G07
  CHECK(grouped.deviation > vanilla.deviation);    // G09

  const PlacementPlan copies = plan("{replication: dynamic}");
  const Outcome weighted = run(placed(copies, window, "weighted_round_robin"), tokens);
  CHECK(weighted.deviation < grouped.deviation);    // G11
  CHECK(weighted.cross_node > grouped.cross_node);  // G13

  const Outcome nearest = run(placed(copies, window, "topology_aware"), tokens);
  CHECK(nearest.cross_node < weighted.cross_node);  // G15
  CHECK(nearest.cross_node + nearest.in_node < weighted.cross_node + weighted.in_node);
  CHECK(nearest.deviation > weighted.deviation);  // G16
  CHECK(nearest.deviation < grouped.deviation);
}

TEST_CASE(
    "GRACE on gpt-oss-20b: more affinity inside GPUs than contiguous groups keep, in every layer and at every ratio") {
  const std::vector<std::uint8_t> ids = read_tokens();
  const LoadWindow window = window_from_routing<std::uint8_t>(std::span(ids).first(20000 * kRouting.ids_per_token()),
                                                              kRouting, "gpt-oss-20b");
  Grouping contiguous(4);
  for (int e = 0; e < kRouting.experts; ++e) {
    contiguous[static_cast<std::size_t>(e / 8)].push_back(e);
  }
  for (int step = 1; step <= 10; ++step) {
    GraceExplanation why;
    GraceOptions options;
    options.ratio = 0.05 * step;
    grace_plan(options, window, kCluster, &why);
    for (std::size_t l = 0; l < 24; ++l) {
      CAPTURE(l);
      CAPTURE(why.ratio);
      const std::span<const double> values = window.affinity()->layer(static_cast<int>(l));
      const AffinityMatrix affinity(kRouting.experts, {values.begin(), values.end()});
      CHECK(affinity_utilisation(affinity, why.groups[l]) >= affinity_utilisation(affinity, contiguous));
    }
  }
}
