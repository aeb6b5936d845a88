#include "models/network/traffic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/network/miss_chance.h"
#include "models/network/traffic_matrix.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

// 1 - exp(-x): the chance that a Poisson count of mean x is not zero. A table, because every slot of every layer asks.
class AtLeastOne {
 public:
  AtLeastOne() {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      table_[i] = -std::expm1(-static_cast<double>(i) / kPerUnit);
    }
  }
  double operator()(double mean) const {
    if (mean >= kEnd) {
      return 1.0;  // off by less than 2e-7
    }
    const double position = mean * kPerUnit;
    const auto i = static_cast<std::size_t>(position);
    return table_[i] + (table_[i + 1] - table_[i]) * (position - static_cast<double>(i));
  }

 private:
  static constexpr double kEnd = 16.0;
  static constexpr double kPerUnit = 128.0;
  std::array<double, 2050> table_{};
};
const AtLeastOne kAtLeastOne;

}  // namespace

TrafficModel::TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                           Dedup dedup, bool with_pairs)
    : placement_(placement), parallelism_(parallelism), shape_(shape), dedup_(dedup), with_pairs_(with_pairs) {
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
  for (int l = 0; l < placement.layers(); ++l) {
    const LayerPlacement& at = placement.layer(l);
    varying_.push_back(varying_shares(at, shape));
    if (dedup == Dedup::kNode) {
      node_shares_.push_back(at.by_source.empty() ? node_shares(at, shape, at.share)
                                                  : common_node_shares(at, shape, varying_.back().common_slot));
      source_nodes_.push_back(source_node_shares(at, shape));
    }
  }
  common_miss_.resize(gpus);
}

// Rows computed on each GPU, and how many of its experts they touch.
void TrafficModel::execute(const LayerPlacement& at, LayerTraffic& out) {
  for (std::size_t g = 0; g < gpu_tokens_.size(); ++g) {
    double rows = 0, touched = 0;
    for (auto s = static_cast<std::size_t>(at.first_slot[g]); s < static_cast<std::size_t>(at.first_slot[g + 1]); ++s) {
      const double slot_rows = expert_rows_[static_cast<std::size_t>(at.expert[s])] * static_cast<double>(at.share[s]);
      rows += slot_rows;
      touched += kAtLeastOne(slot_rows);
    }
    out.executed[g] = rows;
    out.touched[g] = touched;
  }
}

// Where the tokens of a source lie: all ranks when there is one source, else that rank alone.
void TrafficModel::spread_tokens(std::span<const std::int64_t> tokens, int source, int sources) {
  std::fill(node_tokens_.begin(), node_tokens_.end(), 0.0);
  for (int g = 0; g < shape_.gpus; ++g) {
    const int rank = parallelism_.rank_of(g);
    const bool ours = sources == 1 || rank == source;
    const double here =
        ours ? static_cast<double>(tokens[static_cast<std::size_t>(rank)]) / parallelism_.attention_tp : 0.0;
    gpu_tokens_[static_cast<std::size_t>(g)] = here;
    node_tokens_[static_cast<std::size_t>(shape_.node_of(g))] += here;
  }
}

void TrafficModel::reach(int l, std::span<const float> pi) {
  const LayerPlacement& at = placement_.layer(l);
  const double weight = dedup_ == Dedup::kNone ? 0.0 : pair_weight(pi);
  std::fill(node_reach_.begin(), node_reach_.end(), 0.0);
  for (std::size_t g = 0; g < reach_.size(); ++g) {
    double sum = 0;
    MissChance missed;
    for (auto s = static_cast<std::size_t>(at.first_slot[g]); s < static_cast<std::size_t>(at.first_slot[g + 1]); ++s) {
      const auto used = static_cast<double>(pi[static_cast<std::size_t>(at.expert[s])]);
      const auto share = static_cast<double>(at.share[s]);
      sum += used * share;
      missed.add(used, share);
    }
    reach_[g] = dedup_ == Dedup::kNone ? sum : 1.0 - missed.value(weight);
    node_reach_[static_cast<std::size_t>(shape_.node_of(static_cast<int>(g)))] += reach_[g];
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
  std::size_t g = 0;
  for (std::size_t n = 0; n < node_tokens_.size(); ++n) {
    for (int i = 0; i < shape_.gpus_per_node; ++i, ++g) {
      out.intra_out[g] += gpu_tokens_[g] * (node_reach_[n] - reach_[g]);
      out.inter_out[g] += gpu_tokens_[g] * (all_reach - node_reach_[n]);
      out.intra_in[g] += (node_tokens_[n] - gpu_tokens_[g]) * reach_[g];
      out.inter_in[g] += (all_tokens - node_tokens_[n]) * reach_[g];
    }
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
      touched += kAtLeastOne(slot_rows_[s]);
    }
    out.executed[g] = rows;
    out.touched[g] = touched;
  }
}

// Assignments per expert, all sources together.
void TrafficModel::sum_rows(int l, const StepLoads& loads, std::span<const std::int64_t> tokens) {
  expert_rows_.assign(static_cast<std::size_t>(placement_.experts()), 0.0);
  std::int64_t all = 0;
  for (const std::int64_t t : tokens) {
    all += t;
  }
  for (int s = 0; s < loads.sources; ++s) {
    const auto weight = static_cast<double>(loads.sources == 1 ? all : tokens[static_cast<std::size_t>(s)]);
    const std::span<const float> pi = loads.row(l, s);
    for (std::size_t e = 0; e < expert_rows_.size(); ++e) {
      expert_rows_[e] += weight * static_cast<double>(pi[e]);
    }
  }
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
  slot_rows_.assign(varies ? at.expert.size() : 0, 0.0);
  for (int s = 0; s < loads.sources; ++s) {
    spread_tokens(tokens, s, loads.sources);
    if (varies) {
      send_by_source(l, loads.row(l, s), out);
    } else {
      reach(l, loads.row(l, s));
      send(out);
    }
  }
  if (varies) {
    execute_slots(at, out);
  } else {
    sum_rows(l, loads, tokens);
    execute(at, out);
  }
  if (dedup_ == Dedup::kEverywhere) {
    send_everywhere(tokens, out);
  }
  if (with_pairs_) {
    out.pairs = traffic_matrix(placement_, parallelism_, shape_, dedup_, l, loads, tokens).rows;
  }
}

}  // namespace epsim
