#include "models/network/traffic_matrix.h"

#include <utility>

#include "models/network/miss_chance.h"
#include "models/network/node_shares.h"
#include "sim/core/check.h"

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
    MissChance missed;
    for (auto s = static_cast<std::size_t>(layer.first_slot[g]); s < static_cast<std::size_t>(layer.first_slot[g + 1]);
         ++s) {
      const auto used = static_cast<double>(pi[static_cast<std::size_t>(layer.expert[s])]);
      const auto share = static_cast<double>(shares[s]);
      sum += used * share;
      missed.add(used, share);
    }
    out.gpu[g] = dedup == Dedup::kNone ? sum : 1.0 - missed.value(weight);
  }
  const NodeShares by_node = node_shares(layer, shape, shares);
  for (std::size_t n = 0; n < by_node.lists(); ++n) {
    MissChance missed;
    for (const NodeShares::Entry& entry : by_node.list(n)) {
      missed.add(static_cast<double>(pi[static_cast<std::size_t>(entry.expert)]), static_cast<double>(entry.share));
    }
    out.node.push_back(1.0 - missed.value(weight));
  }
  return out;
}

void add_per_gpu(TrafficMatrix& out, int from, double tokens, const Reach& reach) {
  for (int to = 0; to < out.gpus; ++to) {
    out.at(from, to) += to == from ? 0.0 : tokens * reach.gpu[static_cast<std::size_t>(to)];
  }
}

void add_per_node(TrafficMatrix& out, const ClusterShape& shape, int from, double tokens, const Reach& reach) {
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

TrafficMatrix traffic_matrix(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                             Dedup dedup, int layer, const StepLoads& loads, std::span<const std::int64_t> tokens) {
  EPSIM_CHECK(placement.gpus() == shape.gpus && parallelism.gpus == shape.gpus, "one instance spans the cluster");
  EPSIM_CHECK(static_cast<int>(tokens.size()) == parallelism.dp_ranks(), "tokens are given per DP rank");
  TrafficMatrix out{shape.gpus, std::vector<double>(static_cast<std::size_t>(shape.gpus * shape.gpus))};
  const LayerPlacement& at = placement.layer(layer);
  std::pair<int, int> last{-1, -1};  // whose reach it is: row of the loads, row of the shares
  Reach reach;
  for (int from = 0; from < shape.gpus; ++from) {
    const int rank = parallelism.rank_of(from);
    const double here = static_cast<double>(tokens[static_cast<std::size_t>(rank)]) / parallelism.attention_tp;
    const std::pair<int, int> mine{loads.sources == 1 ? 0 : rank,
                                   at.by_source.empty() ? 0 : from / at.by_source.gpus_per_source};
    if (dedup == Dedup::kEverywhere) {
      reach.gpu.assign(static_cast<std::size_t>(shape.gpus), 1.0);
      reach.node.assign(static_cast<std::size_t>(shape.nodes()), 1.0);
    } else if (mine != last) {
      last = mine;
      const std::size_t slots = at.expert.size();
      const std::span<const float> shares =
          at.by_source.empty()
              ? std::span<const float>(at.share)
              : std::span(at.by_source.share).subspan(static_cast<std::size_t>(mine.second) * slots, slots);
      reach = reach_from(at, shape, dedup, shares, loads.row(layer, mine.first));
    }
    if (dedup == Dedup::kNode || dedup == Dedup::kEverywhere) {
      add_per_node(out, shape, from, here, reach);
    } else {
      add_per_gpu(out, from, here, reach);
    }
  }
  return out;
}

LayerTraffic sums_of(const TrafficMatrix& matrix, const ClusterShape& shape) {
  LayerTraffic out;
  for (std::vector<double>* sums : {&out.intra_out, &out.intra_in, &out.inter_out, &out.inter_in}) {
    sums->assign(static_cast<std::size_t>(matrix.gpus), 0.0);
  }
  for (int from = 0; from < matrix.gpus; ++from) {
    for (int to = 0; to < matrix.gpus; ++to) {
      if (from == to) {
        continue;
      }
      const bool inside = shape.node_of(from) == shape.node_of(to);
      (inside ? out.intra_out : out.inter_out)[static_cast<std::size_t>(from)] += matrix.at(from, to);
      (inside ? out.intra_in : out.inter_in)[static_cast<std::size_t>(to)] += matrix.at(from, to);
    }
  }
  return out;
}

std::vector<Flow> flows_of(const TrafficMatrix& matrix, Bytes row, bool combine) {
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
