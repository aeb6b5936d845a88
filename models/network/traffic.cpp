#include "models/network/traffic.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "models/network/miss_probability.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

SoaSlots::Counted counted_as(const StepLoads& loads) {
  return !loads.counted       ? SoaSlots::Counted::kNo
         : loads.sources == 1 ? SoaSlots::Counted::kTogether
                              : SoaSlots::Counted::kBySource;
}

}  // namespace

TrafficModel::TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                           Dedup dedup, const UsedTogether& together)
    : placement_(placement), parallelism_(parallelism), shape_(shape), dedup_(dedup) {
  EPSIM_CHECK(placement.gpus() == shape.gpus && parallelism.gpus == shape.gpus, "one instance spans the cluster");
  common_ = std::make_shared<const SourceLanes>(common_lanes(shape));
  for (int l = 0; l < placement.layers(); ++l) {
    lanes_.push_back(placement.layer(l).by_source.empty()
                         ? common_
                         : std::make_shared<const SourceLanes>(source_lanes(placement.layer(l), shape)));
    slots_.emplace_back(placement.layer(l), *lanes_.back());
    if (dedup == Dedup::kNode) {
      nodes_.push_back(node_shares(placement.layer(l), shape));
    }
    if (together.known() && (dedup == Dedup::kGpu || dedup == Dedup::kNode)) {
      CopySets sets = copy_sets(placement.layer(l), *lanes_.back(), nodes_.empty() ? nullptr : &nodes_.back());
      joint_.push_back(joint_use(sets, lanes_.back()->gpu.size(), together, l));
      recorded_.add_layer(std::move(sets));
    }
  }
}

JointPowers TrafficModel::joint_powers(int l) const {
  JointPowers out;
  if (!joint_.empty()) {
    const std::vector<double>& lanes = joint_[l].lanes;
    out.gpus.assign(lanes.begin(), lanes.begin() + shape_.gpus);
    for (int n = 0; n < shape_.nodes() && dedup_ == Dedup::kNode; ++n) {
      out.nodes.push_back(joint_[l].lists[nodes_[l].list_of[n]]);
    }
  }
  return out;
}

// What tokens that use expert e with chance pi[e] send.
void TrafficModel::reach(int l, const StepLoads& loads, int source, TrafficMatrix::Mix& mix) {
  const std::span<const float> pi = loads.row(l, source);
  slots_[l].gather(pi, slot_values_);
  if (to_all()) {
    return;
  }
  if (dedup_ == Dedup::kNone) {
    slots_[l].sum_rows(slot_values_, mix.reach);
    return;
  }
  if (!joint_.empty() && loads.recorded.source != nullptr) {
    reach_recorded(l, loads, mix);
  } else {
    const double weight = pair_weight(pi);
    if (joint_.empty()) {
      slots_[l].reach(slot_values_, weight, mix.reach);
    } else {
      slots_[l].reach(slot_values_, weight, joint_[l].lanes, mix.reach);
    }
    reach_nodes(l, pi, weight);
  }
  if (dedup_ != Dedup::kNode) {
    return;
  }
  for (TrafficMatrix::Row& row : mix.rows) {
    for (int n = 0; n < shape_.nodes(); ++n) {
      row.hit.push_back(list_hit_[nodes_[l].list_of[row.source->choice * shape_.nodes() + n]]);
    }
  }
}

void TrafficModel::reach_recorded(int l, const StepLoads& loads, TrafficMatrix::Mix& mix) {
  const std::span<const double> hits = recorded_.hits(l, loads);
  const auto lanes = static_cast<std::size_t>(lanes_[l]->lanes());
  mix.reach.assign(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(lanes));
  list_hit_.assign(hits.begin() + static_cast<std::ptrdiff_t>(lanes), hits.end());
}

void TrafficModel::reach_nodes(int l, std::span<const float> pi, double weight) {
  list_hit_.clear();
  for (std::size_t i = 0; dedup_ == Dedup::kNode && i < nodes_[l].lists(); ++i) {
    MissProbability missed;
    for (const NodeShares::Entry& entry : nodes_[l].list(i)) {
      missed.add(static_cast<double>(pi[entry.expert]), static_cast<double>(entry.share));
    }
    list_hit_.push_back(1.0 - (joint_.empty() ? missed.value(weight) : missed.value(weight, joint_[l].lists[i])));
  }
}

// The tokens of each GPU: its share of its rank's, or `on_wire` what it passes on of a buffer that all share.
void TrafficModel::fill_gpu_tokens(std::span<const std::int64_t> tokens, bool on_wire) {
  const int tp = parallelism_.attention_tp;
  gpu_tokens_.resize(shape_.gpus);
  for (int r = 0; r < std::ssize(tokens); ++r) {
    std::fill_n(gpu_tokens_.begin() + std::ptrdiff_t{r} * tp, tp, static_cast<double>(tokens[r]) / tp);
  }
  if (on_wire && to_all() && dedup_ != Dedup::kByTpRank) {
    const auto all = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}));
    const auto longest = static_cast<double>(*std::max_element(tokens.begin(), tokens.end()));
    const double rows = dedup_ == Dedup::kEven ? all : longest * static_cast<double>(tokens.size());
    std::fill(gpu_tokens_.begin(), gpu_tokens_.end(), rows / shape_.gpus);
  }
}

// A ring over the GPUs of each index in their DP ranks. Its channels enter a node at each of its members in turn; every
// member receives all tokens but its rank's own.
void TrafficModel::send_in_rings(std::span<const std::int64_t> tokens, TrafficMatrix& out) const {
  const int tp = parallelism_.attention_tp, of_node = shape_.gpus_per_node / tp, ranks = parallelism_.dp_ranks();
  const auto all = static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}));
  for (int channel = 0; channel < of_node && ranks > 1; ++channel) {
    const auto rank_at = [&](int place) {
      const int node = place / of_node % shape_.nodes();
      return node * of_node + (channel + place) % of_node;
    };
    for (int place = 0; place < ranks; ++place) {
      const int from = rank_at(place), to = rank_at(place + 1);
      const double rows = (all - static_cast<double>(tokens[to])) / of_node;
      for (int t = 0; t < tp; ++t) {
        out.add(from * tp + t, to * tp + t, rows);
      }
    }
  }
}

// What an all-gather sends, whatever the experts.
void TrafficModel::send_everywhere(TrafficMatrix& out) const {
  TrafficMatrix::Mix& mix = out.new_mix(common_, 0, shape_.gpus);
  mix.reach.assign(shape_.gpus, 1.0);
  mix.rows.front().hit.assign(shape_.nodes(), 1.0);
  out.count(mix);
}

// Work where all sources share copies alike. One mix's chances lie in slot_values_ already.
void TrafficModel::execute(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out) {
  if (loads.sources == 1) {
    const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    slots_[l].execute(slot_values_, static_cast<double>(all), counted_as(loads), out.executed, out.touched);
    return;
  }
  expert_rows_.assign(placement_.experts(), 0.0);
  for (int s = 0; s < loads.sources; ++s) {
    const auto weight = static_cast<double>(tokens[s]);
    const std::span<const float> pi = loads.row(l, s);
    for (std::size_t e = 0; e < expert_rows_.size(); ++e) {
      expert_rows_[e] += weight * static_cast<double>(pi[e]);
    }
  }
  slots_[l].gather(std::span<const double>(expert_rows_), slot_values_);
  slots_[l].execute(slot_values_, 1.0, counted_as(loads), out.executed, out.touched);
}

// The same where they do not: the part of one mix, whose chances lie in slot_values_.
void TrafficModel::add_slot_rows(int l, const TrafficMatrix::Mix& mix) {
  lane_tokens_.resize(mix.near.size());
  std::transform(mix.near.begin(), mix.near.end(), mix.far.begin(), lane_tokens_.begin(), std::plus<>());
  slots_[l].add_rows(slot_values_, lane_tokens_, slot_rows_);
}

void TrafficModel::layer(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out) {
  const bool varies = !placement_.layer(l).by_source.empty();
  const int per_mix = loads.sources == 1 ? shape_.gpus : parallelism_.attention_tp;
  fill_gpu_tokens(tokens, !varies);
  out.clear(shape_, gpu_tokens_);
  slot_rows_.clear();
  for (int s = 0; s < loads.sources; ++s) {
    TrafficMatrix::Mix& mix = out.new_mix(lanes_[l], s * per_mix, (s + 1) * per_mix);
    reach(l, loads, s, mix);
    if (!to_all()) {
      out.count(mix);
    }
    if (varies) {
      add_slot_rows(l, mix);
    }
  }
  if (to_all()) {
    fill_gpu_tokens(tokens, true);
    out.clear(shape_, gpu_tokens_);
    dedup_ == Dedup::kByTpRank ? send_in_rings(tokens, out) : send_everywhere(out);
  }
  if (varies) {
    slots_[l].execute(slot_rows_, counted_as(loads), out.executed, out.touched);
  } else {
    execute(l, loads, tokens, out);
  }
}

}  // namespace epsim
