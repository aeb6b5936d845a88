// What the tests of GRACE's component study share: its placements by name, recorded tokens, and rows counted.
#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "policies/registry.h"
#include "policies/replica_choice/grace_routing.h"
#include "sim/core/rng.h"
#include "tests/support/paths.h"
#include "tests/support/routing_window.h"
#include "tests/support/token_traffic.h"

namespace epsim::test {

// A policy's plan with the replica choice that goes with it.
inline Placement placed(const std::string& policy, const LoadWindow& window, const ClusterShape& shape) {
  ConfigReader options = Config::from_text("{}", "options").root();
  const PlacementPolicyEntry& entry = placement_policy_entry(policy, options);
  const PlacementPlan plan = entry.make(options)->plan(window, shape);
  std::vector<SourceShares> shares;
  if (!entry.replica_choice.empty()) {
    ConfigReader choice = Config::from_text("{}", "choice").root();
    shares = choose_replicas(*make_replica_choice(std::string(entry.replica_choice), choice), plan, window, shape);
  }
  return Placement::build(plan, shape, Bytes(1), Bytes(1e9), std::move(shares));
}

// One draw from copy_shares(): the GPU.
inline int choose_copy(int token_gpu, std::span<const int> holders, std::span<const double> weights,
                       const ClusterShape& shape, WeightedRule rule, RandomStream& random) {
  const std::vector<double> shares = copy_shares(token_gpu, holders, weights, shape, rule);
  double mark = random.uniform();
  int chosen = -1;
  for (std::size_t i = 0; i < holders.size() && mark >= 0; ++i) {
    if (shares[i] > 0) {
      chosen = holders[i];
      mark -= shares[i];
    }
  }
  return chosen;
}

inline double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

// Root mean square distance from the mean.
inline double deviation(const std::vector<double>& v) {
  const double mean = sum(v) / static_cast<double>(v.size());
  double squares = 0;
  for (const double x : v) {
    squares += (x - mean) * (x - mean);
  }
  return std::sqrt(squares / static_cast<double>(v.size()));
}

// The ids of one layer, [token][k], of [token][layer][k].
template <class Id>
std::vector<Id> layer_of(std::span<const Id> ids, const RoutingShape& shape, int layer) {
  const auto k = static_cast<std::size_t>(shape.top_k), first = static_cast<std::size_t>(layer) * k;
  std::vector<Id> out;
  out.reserve(ids.size() / static_cast<std::size_t>(shape.layers));
  for (std::size_t at = first; at < ids.size(); at += shape.ids_per_token()) {
    for (std::size_t i = 0; i < k; ++i) {
      out.push_back(ids[at + i]);
    }
  }
  return out;
}

// Per token and layer: rows to other nodes, rows to other GPUs of the node, and the deviation of GPU loads
// (assignments), averaged over layers. Token t lies on GPU t modulo the GPUs (data parallel).
struct Rows {
  double cross_node = 0, in_node = 0, deviation = 0;
};
template <class Id>
Rows count_rows(const Placement& placement, std::span<const Id> ids, const RoutingShape& shape,
                const ClusterShape& cluster, Dedup dedup) {
  const std::size_t tokens = ids.size() / shape.ids_per_token();
  std::vector<std::int32_t> gpu(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    gpu[t] = static_cast<std::int32_t>(t) % cluster.gpus;
  }
  Rows out;
  const double scale = 1.0 / static_cast<double>(tokens) / shape.layers;
  for (int l = 0; l < shape.layers; ++l) {
    TrafficMatrix traffic;
    count_token_traffic<Id>(placement, l, cluster, dedup, layer_of(ids, shape, l), gpu, traffic);
    out.cross_node += sum(traffic.inter_out) * scale;
    out.in_node += sum(traffic.intra_out) * scale;
    out.deviation += deviation(traffic.executed) * scale;
  }
  return out;
}

// gpt-oss-20b: 24 layers, top-4 of 32 experts; tokens in the order of their sequences, data set by data set.
inline constexpr RoutingShape kGptOss{.layers = 24, .experts = 32, .top_k = 4};
inline std::vector<std::uint8_t> gpt_oss_tokens(std::size_t first, std::size_t count) {
  const auto path = shared_dir() / "data/gpt-oss-20b-routing/routing_u8_T24x4.bin.gz";
  std::vector<std::uint8_t> ids((first + count) * kGptOss.ids_per_token());
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  const int got = gzread(file, ids.data(), static_cast<unsigned>(ids.size()));
  gzclose(file);
  REQUIRE(got == static_cast<int>(ids.size()));
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first * kGptOss.ids_per_token()));
  return ids;
}

}  // namespace epsim::test
