#include "models/network/traffic.h"

#include <algorithm>
#include <numeric>

#include "models/network/miss_probability.h"
#include "sim/core/check.h"

namespace epsim {

TrafficModel::TrafficModel(const Placement& placement, const Parallelism& parallelism, const ClusterShape& shape,
                           Dedup dedup)
    : placement_(placement), parallelism_(parallelism), shape_(shape), dedup_(dedup) {
  EPSIM_CHECK(placement.gpus() == shape.gpus && parallelism.gpus == shape.gpus, "one instance spans the cluster");
  for (int l = 0; l < placement.layers(); ++l) {
    slots_.emplace_back(placement.layer(l));
    if (dedup == Dedup::kNode) {
      nodes_.push_back(node_shares(placement.layer(l), shape));
    }
  }
}

// Tokens that use expert e with chance pi[e].
void TrafficModel::reach(int l, std::span<const float> pi) {
  const SoaSlots& slots = slots_[l];
  slots.gather(pi, slot_values_);
  if (dedup_ == Dedup::kNone) {
    slots.sum_rows(slot_values_, lane_reach_);
  } else if (dedup_ != Dedup::kEverywhere) {
    slots.reach(slot_values_, pair_weight(pi), lane_reach_);
  }
  list_hit_.clear();
  for (std::size_t i = 0; dedup_ == Dedup::kNode && i < nodes_[l].lists(); ++i) {
    MissProbability missed;
    for (const NodeShares::Entry& entry : nodes_[l].list(i)) {
      missed.add(static_cast<double>(pi[entry.expert]), static_cast<double>(entry.share));
    }
    list_hit_.push_back(1.0 - missed.value(pair_weight(pi)));
  }
}

// A source without its rows: the tokens of GPUs [first, last).
TrafficMatrix::Source& TrafficModel::place_tokens(std::span<const std::int64_t> tokens, int first, int last,
                                                  TrafficMatrix& out) const {
  TrafficMatrix::Source& source = out.new_source();
  source.tokens.assign(shape_.gpus, 0.0);
  for (int g = first; g < last;) {
    const int rank = parallelism_.rank_of(g), end = std::min(last, (rank + 1) * parallelism_.attention_tp);
    const double here = static_cast<double>(tokens[rank]) / parallelism_.attention_tp;
    std::fill(source.tokens.begin() + g, source.tokens.begin() + end, here);
    g = end;
  }
  return source;
}

// Tokens of the mix at hand that choose copies as source `choice` (SourceShares) does.
void TrafficModel::send(int l, int choice, TrafficMatrix::Source& source, TrafficMatrix& out) const {
  const std::span<const std::int32_t> lanes = slots_[l].lanes_of(choice);
  source.reach.assign(lane_reach_.begin(), lane_reach_.begin() + shape_.gpus);
  for (std::size_t g = 0; g < lanes.size(); ++g) {
    source.reach[g] = lane_reach_[lanes[g]];
  }
  for (int n = 0; dedup_ == Dedup::kNode && n < shape_.nodes(); ++n) {
    source.hit.push_back(list_hit_[nodes_[l].list_of[choice * shape_.nodes() + n]]);
  }
  out.count(source);
}

// What an all-gather sends, whatever the experts.
void TrafficModel::send_everywhere(std::span<const std::int64_t> tokens, TrafficMatrix& out) const {
  TrafficMatrix::Source& source = place_tokens(tokens, 0, shape_.gpus, out);
  source.reach.assign(shape_.gpus, 1.0);
  source.hit.assign(shape_.nodes(), 1.0);
  out.count(source);
}

// Work where all sources share copies alike. One mix's chances lie in slot_values_ already.
void TrafficModel::execute(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out) {
  if (loads.sources == 1) {
    const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    slots_[l].execute(slot_values_, static_cast<double>(all), out.executed, out.touched);
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
  slots_[l].execute(slot_values_, 1.0, out.executed, out.touched);
}

// The same where they do not, from slot_rows_.
void TrafficModel::execute_slots(int l, TrafficMatrix& out) const {
  const LayerPlacement& at = placement_.layer(l);
  out.executed.assign(shape_.gpus, 0.0);
  out.touched.assign(shape_.gpus, 0.0);
  for (int g = 0; g < shape_.gpus; ++g) {
    for (int s = at.first_slot[g]; s < at.first_slot[g + 1]; ++s) {
      out.executed[g] += slot_rows_[s];
      out.touched[g] += at_least_one(slot_rows_[s]);
    }
  }
}

void TrafficModel::layer(int l, const StepLoads& loads, std::span<const std::int64_t> tokens, TrafficMatrix& out) {
  const LayerPlacement& at = placement_.layer(l);
  const bool varies = !at.by_source.empty();
  const int per_mix = loads.sources == 1 ? shape_.gpus : parallelism_.attention_tp;
  const int per_choice = varies ? at.by_source.gpus_per_source : shape_.gpus;
  out.clear(shape_);
  slot_rows_.assign(varies ? at.expert.size() : 0, 0.0);
  for (int s = 0, gpu = 0; s < loads.sources; ++s) {
    const std::span<const float> pi = loads.row(l, s);
    reach(l, pi);
    lane_tokens_.assign(varies ? slots_[l].lanes() : 0, 0.0);
    while (gpu < (s + 1) * per_mix) {
      const int choice = gpu / per_choice, end = std::min((s + 1) * per_mix, (choice + 1) * per_choice);
      TrafficMatrix::Source& source = place_tokens(tokens, gpu, end, out);
      if (varies) {
        const double here = std::accumulate(source.tokens.begin() + gpu, source.tokens.begin() + end, 0.0);
        for (const std::int32_t lane : slots_[l].lanes_of(choice)) {
          lane_tokens_[lane] += here;
        }
      }
      if (dedup_ != Dedup::kEverywhere) {
        send(l, choice, source, out);
      }
      gpu = end;
    }
    if (varies) {
      slots_[l].add_rows(slot_values_, lane_tokens_, slot_rows_);
    }
  }
  if (dedup_ == Dedup::kEverywhere) {
    out.clear(shape_);
    send_everywhere(tokens, out);
  }
  if (varies) {
    execute_slots(l, out);
  } else {
    execute(l, loads, tokens, out);
  }
}

}  // namespace epsim
