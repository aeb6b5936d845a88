#include "tests/models/pair_rows.h"

#include <map>

#include "models/network/miss_probability.h"

namespace epsim {
namespace {

// Rows that a token of one GPU makes: for each GPU, and whether it needs each node.
struct Reach {
  std::vector<double> gpu;   // [GPU] expected rows
  std::vector<double> node;  // [node] chance of at least one
};

// With the copies' `shares` for the source at hand.
Reach reach_from(const LayerPlacement& layer, const ClusterShape& shape, Dedup dedup, std::span<const float> shares,
                 std::span<const float> pi) {
  const double weight = pair_weight(pi);
  Reach out{std::vector<double>(static_cast<std::size_t>(shape.gpus)), {}};
  for (std::size_t g = 0; g < out.gpu.size(); ++g) {
    double sum = 0;
    MissProbability missed;
    for (auto s = static_cast<std::size_t>(layer.first_slot[g]); s < static_cast<std::size_t>(layer.first_slot[g + 1]);
         ++s) {
      const auto used = static_cast<double>(pi[static_cast<std::size_t>(layer.expert[s])]);
      const auto share = static_cast<double>(shares[s]);
      sum += used * share;
      missed.add(used, share);
    }
    out.gpu[g] = dedup == Dedup::kNone ? sum : 1.0 - missed.value(weight);
  }
  for (int n = 0; n < shape.nodes(); ++n) {  // copies of one expert exclude each other
    std::map<int, double> by_expert;
    for (int s = layer.first_slot[n * shape.gpus_per_node]; s < layer.first_slot[(n + 1) * shape.gpus_per_node]; ++s) {
      by_expert[layer.expert[s]] += static_cast<double>(shares[s]);
    }
    MissProbability missed;
    for (const auto& [expert, share] : by_expert) {
      missed.add(static_cast<double>(pi[expert]), share > 1.0 - 1e-6 ? 1.0 : share);
    }
    out.node.push_back(1.0 - missed.value(weight));
  }
  return out;
}

void add_per_gpu(PairRows& out, int from, double tokens, const Reach& reach) {
  for (int to = 0; to < out.gpus; ++to) {
    out.at(from, to) += to == from ? 0.0 : tokens * reach.gpu[static_cast<std::size_t>(to)];
  }
}

void add_per_node(PairRows& out, const ClusterShape& shape, int from, double tokens, const Reach& reach) {
  for (int node = 0; node < shape.nodes(); ++node) {
    const int first = node * shape.gpus_per_node, landing = first + from % shape.gpus_per_node;
    if (landing != from) {
      out.at(from, landing) += tokens * reach.node[static_cast<std::size_t>(node)];
    }
    for (int to = first; to < first + shape.gpus_per_node; ++to) {
      if (to != landing) {
        out.at(landing, to) += tokens * reach.gpu[static_cast<std::size_t>(to)];
      }
    }
  }
}

}  // namespace

PairRows expected_rows(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                       Dedup dedup, int layer, const StepLoads& loads, std::span<const std::int64_t> tokens) {
  PairRows out{shape.gpus, std::vector<double>(static_cast<std::size_t>(shape.gpus * shape.gpus))};
  const LayerPlacement& at = placement.layer(layer);
  for (int from = 0; from < shape.gpus; ++from) {
    const int rank = parallelism.rank_of(from);
    const double here = static_cast<double>(tokens[rank]) / parallelism.attention_tp;
    std::span<const float> shares = at.share;
    if (!at.by_source.empty()) {
      const std::size_t slots = at.expert.size();
      shares = std::span(at.by_source.share).subspan(from / at.by_source.gpus_per_source * slots, slots);
    }
    const Reach reach = reach_from(at, shape, dedup, shares, loads.row(layer, loads.sources == 1 ? 0 : rank));
    if (dedup == Dedup::kNode) {
      add_per_node(out, shape, from, here, reach);
    } else {
      add_per_gpu(out, from, here, reach);
    }
  }
  return out;
}

TrafficMatrix traffic_of(const PairRows& rows, const ClusterShape& shape) {
  TrafficMatrix out;
  out.clear(shape);
  for (int from = 0; from < rows.gpus; ++from) {
    for (int to = 0; to < rows.gpus; ++to) {
      out.add(from, to, rows.at(from, to));
    }
  }
  return out;
}

std::vector<Flow> flows_of(const PairRows& matrix, Bytes row, bool combine) {
  std::vector<Flow> out;
  for (int from = 0; from < matrix.gpus; ++from) {
    for (int to = 0; to < matrix.gpus; ++to) {
      if (from != to && matrix.at(from, to) > 0) {
        out.push_back({combine ? to : from, combine ? from : to, row * matrix.at(from, to)});
      }
    }
  }
  return out;
}

}  // namespace epsim
