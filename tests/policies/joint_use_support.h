// Rows that a run is priced with, beside the same counted token by token.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "models/network/traffic.h"
#include "sim/domain/affinity.h"
#include "tests/policies/grace_support.h"

namespace epsim::test {

inline constexpr const char* kComponents[] = {"grace_vanilla", "grace_hg", "grace_hg_fr", "grace_hg_dr_wrr",
                                              "grace_hg_dr_tar"};

// The same per token and layer as count_rows(), of steps of `batch` tokens of which a run knows each expert's load.
// `tokens` as TrafficModel takes them.
template <class Id>
Rows priced_rows(const Placement& placement, std::span<const Id> ids, const RoutingShape& shape,
                 const ClusterShape& cluster, Dedup dedup, std::size_t batch, const TokenSample* tokens) {
  const Parallelism parallelism{.gpus = cluster.gpus, .attention_tp = 1};
  TrafficModel model(placement, parallelism, cluster, dedup, {.tokens = tokens});
  const std::vector<std::int64_t> by_rank(static_cast<std::size_t>(cluster.gpus),
                                          static_cast<std::int64_t>(batch) / cluster.gpus);
  const std::size_t step_ids = batch * shape.ids_per_token(), steps = ids.size() / step_ids;
  const double scale = 1.0 / static_cast<double>(steps * batch) / shape.layers;
  StepLoads loads;
  TrafficMatrix traffic;
  Rows out;
  for (std::size_t step = 0; step < steps; ++step) {
    loads.resize(shape.layers, 1, shape.experts);
    std::fill(loads.per_token.begin(), loads.per_token.end(), 0.0F);
    for (std::size_t i = 0; i < step_ids; ++i) {
      const int l = static_cast<int>(i % shape.ids_per_token()) / shape.top_k;
      loads.row(l, 0)[ids[step * step_ids + i]] += 1.0F / static_cast<float>(batch);
    }
    for (int l = 0; l < shape.layers; ++l) {
      model.layer(l, loads, by_rank, traffic);
      out.cross_node += sum(traffic.inter_out) * scale;
      out.in_node += sum(traffic.intra_out) * scale;
    }
  }
  return out;
}

// Every component, planned from `window` and run on `run`, on 2 x 2 and 2 x 4 GPUs, in small steps and large: rows
// between nodes and inside within `most` of those counted.
template <class Id>
void check_joint_rows(const LoadWindow& window, std::span<const Id> run, const RoutingShape& shape, double most) {
  for (const int per_node : {2, 4}) {
    const ClusterShape cluster{2 * per_node, per_node};
    for (const std::string policy : kComponents) {
      const Placement placement = placed(policy, window, cluster);
      for (const Dedup dedup : {Dedup::kNode, Dedup::kGpu}) {
        const Rows counted = count_rows<Id>(placement, run, shape, cluster, dedup);
        for (const std::size_t batch : {std::size_t{256}, std::size_t{8192}}) {
          CAPTURE(per_node);
          CAPTURE(policy);
          CAPTURE(dedup == Dedup::kNode);
          CAPTURE(batch);
          const Rows rows = priced_rows(placement, run, shape, cluster, dedup, batch, &window.affinity()->tokens());
          const double between = rows.cross_node / counted.cross_node - 1, inside = rows.in_node / counted.in_node - 1;
          CHECK(std::abs(between) <= most);
          CHECK(std::abs(inside) <= most);
        }
        if (policy == "grace_hg") {  // which independent experts have next to nothing of
          CHECK(priced_rows(placement, run, shape, cluster, dedup, 256, nullptr).in_node > 1.15 * counted.in_node);
        }
      }
    }
  }
}

}  // namespace epsim::test
