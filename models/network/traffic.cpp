#include "models/network/traffic.h"

#include <algorithm>
#include <numeric>

#include "models/network/miss_chance.h"
#include "models/network/traffic_matrix.h"
#include "sim/core/check.h"
#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

// Tokens of a node and of all others; rows that a token sends to its GPUs and to all others'.
struct NodeRows {
  double tokens, other_tokens, reach, other_reach;
};

EPSIM_WIDEST_VECTORS void send_from_node(const NodeRows& node, const double* __restrict tokens,
                                         const double* __restrict reach, std::size_t gpus, double* __restrict intra_out,
                                         double* __restrict intra_in, double* __restrict inter_out,
                                         double* __restrict inter_in) {
  for (std::size_t i = 0; i < gpus; ++i) {
    intra_out[i] += tokens[i] * (node.reach - reach[i]);
    inter_out[i] += tokens[i] * node.other_reach;
    intra_in[i] += (node.tokens - tokens[i]) * reach[i];
    inter_in[i] += node.other_tokens * reach[i];
  }
}

}  // namespace

TrafficModel::TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                           Dedup dedup, Detail detail)
    : placement_(placement), parallelism_(parallelism), shape_(shape), dedup_(dedup), detail_(detail) {
  EPSIM_CHECK(detail != Detail::kSpread || dedup == Dedup::kGpu || dedup == Dedup::kNone,
              "rows that fan out inside a node are not told apart by source");
  EPSIM_CHECK(placement.gpus() == shape.gpus && parallelism.gpus == shape.gpus, "one instance spans the cluster");
  const auto gpus = static_cast<std::size_t>(shape.gpus);
  const auto nodes = static_cast<std::size_t>(shape.nodes());
  expert_rows_.resize(static_cast<std::size_t>(placement.experts()));
  gpu_tokens_.resize(gpus);
  reach_.resize(gpus);
  node_tokens_.resize(nodes);
  node_reach_.resize(nodes);
  node_hit_.resize(nodes);
  landed_.resize(static_cast<std::size_t>(shape.gpus_per_node));
  for (int g = 0; g < shape.gpus; ++g) {
    rank_of_.push_back(static_cast<std::size_t>(parallelism.rank_of(g)));
    node_of_.push_back(static_cast<std::size_t>(shape.node_of(g)));
  }
  for (int l = 0; l < placement.layers(); ++l) {
    const LayerPlacement& at = placement.layer(l);
    columns_.emplace_back(at);
    varying_.push_back(varying_shares(at, shape));
    if (dedup == Dedup::kNode) {
      node_shares_.push_back(at.by_source.empty() ? node_shares(at, shape, at.share)
                                                  : common_node_shares(at, shape, varying_.back().common_slot));
      source_nodes_.push_back(source_node_shares(at, shape));
    }
  }
  common_miss_.resize(gpus);
}

// Where the tokens of a source lie: all ranks when there is one source, else that rank alone.
void TrafficModel::spread_tokens(std::span<const std::int64_t> tokens, int source, int sources) {
  const int ours_alone = sources == 1 ? -1 : source;
  if (spread_source_ == ours_alone && std::equal(tokens.begin(), tokens.end(), spread_.begin(), spread_.end())) {
    return;  // the layer before had the same
  }
  spread_.assign(tokens.begin(), tokens.end());
  spread_source_ = ours_alone;
  std::fill(node_tokens_.begin(), node_tokens_.end(), 0.0);
  for (std::size_t g = 0; g < gpu_tokens_.size(); ++g) {
    const std::size_t rank = rank_of_[g];
    const bool ours = sources == 1 || rank == static_cast<std::size_t>(source);
    const double here = ours ? static_cast<double>(tokens[rank]) / parallelism_.attention_tp : 0.0;
    gpu_tokens_[g] = here;
    node_tokens_[node_of_[g]] += here;
  }
}

void TrafficModel::reach(int l, std::span<const float> pi) {
  const SlotColumns& columns = columns_[static_cast<std::size_t>(l)];
  const double weight = dedup_ == Dedup::kNone ? 0.0 : pair_weight(pi);
  columns.gather(pi, slot_values_);
  if (dedup_ == Dedup::kNone) {
    columns.sum_rows(slot_values_, reach_);
  } else {
    columns.reach(slot_values_, weight, reach_);
  }
  const auto per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  for (std::size_t n = 0; n < node_reach_.size(); ++n) {
    const auto first = reach_.begin() + static_cast<std::ptrdiff_t>(n * per_node);
    node_reach_[n] = std::accumulate(first, first + static_cast<std::ptrdiff_t>(per_node), 0.0);
  }
  if (dedup_ == Dedup::kNode) {
    hit_nodes(node_shares_[static_cast<std::size_t>(l)], pi, weight, node_hit_);
  }
}

void TrafficModel::hit_nodes(const NodeShares& shares, std::span<const float> pi, double weight,
                             std::vector<double>& hit) const {
  hit.resize(shares.lists());
  for (std::size_t n = 0; n < hit.size(); ++n) {
    MissChance missed;
    for (const NodeShares::Entry& entry : shares.list(n)) {
      missed.add(static_cast<double>(pi[static_cast<std::size_t>(entry.expert)]), static_cast<double>(entry.share));
    }
    hit[n] = 1.0 - missed.value(weight);
  }
}

void TrafficModel::send_per_gpu(LayerTraffic& out) {
  double all_tokens = 0, all_reach = 0;
  for (std::size_t n = 0; n < node_tokens_.size(); ++n) {
    all_tokens += node_tokens_[n];
    all_reach += node_reach_[n];
  }
  const auto per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  for (std::size_t n = 0, g = 0; n < node_tokens_.size(); ++n, g += per_node) {
    const NodeRows node{node_tokens_[n], all_tokens - node_tokens_[n], node_reach_[n], all_reach - node_reach_[n]};
    send_from_node(node, gpu_tokens_.data() + g, reach_.data() + g, per_node, out.intra_out.data() + g,
                   out.intra_in.data() + g, out.inter_out.data() + g, out.inter_in.data() + g);
  }
}

void TrafficModel::send_per_node(LayerTraffic& out) {
  double all_hits = 0;
  for (const double hit : node_hit_) {
    all_hits += hit;
  }
  const auto per_node = static_cast<std::size_t>(shape_.gpus_per_node);
  for (std::size_t n = 0; n < node_tokens_.size(); ++n) {
    double landed_sum = 0;
    for (std::size_t i = 0; i < per_node; ++i) {  // tokens that other nodes' GPUs of this index own
      double remote = 0;
      for (std::size_t m = 0; m < node_tokens_.size(); ++m) {
        remote += m == n ? 0.0 : gpu_tokens_[m * per_node + i];
      }
      landed_[i] = remote + gpu_tokens_[n * per_node + i];  // plus its own: fanned out inside just alike
      landed_sum += landed_[i];
      out.inter_in[n * per_node + i] += remote * node_hit_[n];
      out.inter_out[n * per_node + i] += gpu_tokens_[n * per_node + i] * (all_hits - node_hit_[n]);
    }
    for (std::size_t i = 0; i < per_node; ++i) {
      const std::size_t g = n * per_node + i;
      out.intra_out[g] += landed_[i] * (node_reach_[n] - reach_[g]);
      out.intra_in[g] += (landed_sum - landed_[i]) * reach_[g];
    }
  }
}

// Replaces what was sent by what an all-gather sends, whatever the experts.
void TrafficModel::send_everywhere(std::span<const std::int64_t> tokens, LayerTraffic& out) {
  for (std::vector<double>* rows : {&out.intra_out, &out.intra_in, &out.inter_out, &out.inter_in}) {
    std::fill(rows->begin(), rows->end(), 0.0);
  }
  spread_tokens(tokens, 0, 1);
  std::fill(reach_.begin(), reach_.end(), 1.0);
  std::fill(node_reach_.begin(), node_reach_.end(), static_cast<double>(shape_.gpus_per_node));
  std::fill(node_hit_.begin(), node_hit_.end(), 1.0);
  send_per_node(out);
}

void TrafficModel::send(LayerTraffic& out) {
  if (dedup_ == Dedup::kNode) {
    send_per_node(out);
  } else {
    send_per_gpu(out);
  }
}

void TrafficModel::execute_slots(const LayerPlacement& at, LayerTraffic& out) const {
  for (std::size_t g = 0; g < gpu_tokens_.size(); ++g) {
    double rows = 0, touched = 0;
    for (auto s = static_cast<std::size_t>(at.first_slot[g]); s < static_cast<std::size_t>(at.first_slot[g + 1]); ++s) {
      rows += slot_rows_[s];
      touched += at_least_one(slot_rows_[s]);
    }
    out.executed[g] = rows;
    out.touched[g] = touched;
  }
}

// Rows by GPU where all sources share copies alike. One source's chances lie in slot_values_ already.
void TrafficModel::execute(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, LayerTraffic& out) {
  const SlotColumns& columns = columns_[static_cast<std::size_t>(l)];
  if (loads.sources == 1) {
    const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    columns.execute(slot_values_, static_cast<double>(all), out.executed, out.touched);
    return;
  }
  expert_rows_.assign(static_cast<std::size_t>(placement_.experts()), 0.0);
  for (int s = 0; s < loads.sources; ++s) {
    const auto weight = static_cast<double>(tokens[static_cast<std::size_t>(s)]);
    const std::span<const float> pi = loads.row(l, s);
    for (std::size_t e = 0; e < expert_rows_.size(); ++e) {
      expert_rows_[e] += weight * static_cast<double>(pi[e]);
    }
  }
  columns.gather(std::span<const double>(expert_rows_), slot_values_);
  columns.execute(slot_values_, 1.0, out.executed, out.touched);
}

void TrafficModel::layer(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, LayerTraffic& out) {
  const LayerPlacement& at = placement_.layer(l);
  const bool varies = !at.by_source.empty();
  const auto gpus = static_cast<std::size_t>(shape_.gpus);
  out.executed.resize(gpus);
  out.touched.resize(gpus);
  for (std::vector<double>* rows : {&out.intra_out, &out.intra_in, &out.inter_out, &out.inter_in}) {
    rows->assign(gpus, 0.0);
  }
  EPSIM_CHECK(detail_ != Detail::kSpread || !varies, "with fair sharing, copies serve all sources alike");
  out.spread.resize(detail_ == Detail::kSpread ? static_cast<std::size_t>(loads.sources) : 0);
  slot_rows_.assign(varies ? at.expert.size() : 0, 0.0);
  for (int s = 0; s < loads.sources; ++s) {
    spread_tokens(tokens, s, loads.sources);
    if (varies) {
      send_by_source(l, loads.row(l, s), out);
    } else {
      reach(l, loads.row(l, s));
      send(out);
    }
    if (detail_ == Detail::kSpread) {
      out.spread[static_cast<std::size_t>(s)].tokens = gpu_tokens_;
      out.spread[static_cast<std::size_t>(s)].reach = reach_;
    }
  }
  if (varies) {
    execute_slots(at, out);
  } else {
    execute(l, loads, tokens, out);
  }
  if (dedup_ == Dedup::kEverywhere) {
    send_everywhere(tokens, out);
  }
  if (detail_ == Detail::kPairs) {
    out.pairs = traffic_matrix(placement_, parallelism_, shape_, dedup_, l, loads, tokens).rows;
  }
}

}  // namespace epsim
