// Rows where copies serve some sources more than others. What all sources have in common is sent once, for all tokens;
// each source then adds what its own shares change, at the few GPUs where they do.
#include <algorithm>

#include "models/network/traffic.h"

namespace epsim {

// Chances that do not depend on the source, for tokens that use expert e with chance pi[e], and the rows they make.
void TrafficModel::common_part(int l, std::span<const float> pi, double weight) {
  const LayerPlacement& at = placement_.layer(l);
  const VaryingShares& varying = varying_[static_cast<std::size_t>(l)];
  std::fill(reach_.begin(), reach_.end(), 0.0);
  std::fill(common_miss_.begin(), common_miss_.end(), MissChance{});
  double tokens = 0;
  for (const double here : node_tokens_) {
    tokens += here;
  }
  for (std::size_t i = 0; i < varying.common_slot.size(); ++i) {
    const auto slot = static_cast<std::size_t>(varying.common_slot[i]),
               g = static_cast<std::size_t>(varying.common_gpu[i]);
    const auto used = static_cast<double>(pi[static_cast<std::size_t>(at.expert[slot])]);
    const auto share = static_cast<double>(at.share[slot]);
    reach_[g] += used * share;
    common_miss_[g].add(used, share);
    slot_rows_[slot] += tokens * used * share;
  }
  std::fill(node_reach_.begin(), node_reach_.end(), 0.0);
  for (std::size_t g = 0; g < reach_.size(); ++g) {
    reach_[g] = dedup_ == Dedup::kNone ? reach_[g] : 1.0 - common_miss_[g].value(weight);
    node_reach_[static_cast<std::size_t>(shape_.node_of(static_cast<int>(g)))] += reach_[g];
  }
  if (dedup_ == Dedup::kNode) {
    hit_nodes(node_shares_[static_cast<std::size_t>(l)], pi, weight, node_hit_);
    hit_nodes(source_nodes_[static_cast<std::size_t>(l)].lists, pi, weight, list_hit_);
  }
}

void TrafficModel::gain_by_cell(const VaryingShares& varying, std::span<const float> pi, double weight) {
  cell_.resize(varying.cells.size());
  for (std::size_t c = 0; c < cell_.size(); ++c) {
    const VaryingShares::Cell& cell = varying.cells[c];
    const auto g = static_cast<std::size_t>(cell.gpu);
    double sum = 0;
    MissChance missed = common_miss_[g];
    for (std::uint32_t i = cell.first; i < cell.last; ++i) {
      const VaryingShares::Entry& entry = varying.entries[i];
      const auto used = static_cast<double>(pi[static_cast<std::size_t>(entry.expert)]);
      const auto share = static_cast<double>(entry.share);
      sum += used * share;
      missed.add(used, share);
    }
    cell_[c] = {.gain = dedup_ == Dedup::kNone ? sum : 1.0 - missed.value(weight) - reach_[g]};
  }
}

// What leaves the GPUs of one source on top of send_per_gpu(), and what stays on them; tokens are noted at the cells.
void TrafficModel::send_gain_per_gpu(const VaryingShares& varying, const VaryingShares::Source& source,
                                     LayerTraffic& out) {
  double tokens = 0, near = 0, far = 0;
  for (auto g = static_cast<std::size_t>(source.first_gpu); g < static_cast<std::size_t>(source.last_gpu); ++g) {
    tokens += gpu_tokens_[g];
  }
  for (std::uint32_t i = source.near; i < source.far; ++i) {
    const std::uint32_t c = varying.cells_of[i];
    cell_[c].near += tokens;
    near += cell_[c].gain;
    const std::int32_t gpu = varying.cells[c].gpu;
    if (gpu >= source.first_gpu && gpu < source.last_gpu) {
      const auto g = static_cast<std::size_t>(gpu);
      out.intra_out[g] -= gpu_tokens_[g] * cell_[c].gain;
      out.intra_in[g] -= gpu_tokens_[g] * cell_[c].gain;
    }
  }
  for (std::uint32_t i = source.far; i < source.end; ++i) {
    CellTraffic& cell = cell_[varying.cells_of[i]];
    cell.far += tokens;
    far += cell.gain;
  }
  for (auto g = static_cast<std::size_t>(source.first_gpu); g < static_cast<std::size_t>(source.last_gpu); ++g) {
    out.intra_out[g] += gpu_tokens_[g] * near;
    out.inter_out[g] += gpu_tokens_[g] * far;
  }
}

// The same on top of send_per_node(): the tokens of index i in their node land on index i of each node they need, and
// are fanned out from there.
void TrafficModel::send_gain_per_node(int l, const VaryingShares::Source& source, LayerTraffic& out) {
  const VaryingShares& varying = varying_[static_cast<std::size_t>(l)];
  const auto of_source = static_cast<std::size_t>(source.first_gpu / placement_.layer(l).by_source.gpus_per_source);
  const std::uint32_t* lists = source_nodes_[static_cast<std::size_t>(l)].list_of.data() + of_source * node_hit_.size();
  const int size = shape_.gpus_per_node, home = source.first_gpu / size * size;
  const int first = source.first_gpu - home, last = source.last_gpu - home;
  double tokens = 0, hits = 0;
  for (int i = first; i < last; ++i) {
    tokens += gpu_tokens_[static_cast<std::size_t>(home + i)];
  }
  for (std::uint32_t at = source.near; at < source.end;) {
    const int node = varying.cells[varying.cells_of[at]].gpu / size * size;  // its first GPU
    double rows = 0;
    for (; at < source.end && varying.cells[varying.cells_of[at]].gpu < node + size &&
           varying.cells[varying.cells_of[at]].gpu >= node;
         ++at) {
      const std::uint32_t c = varying.cells_of[at];
      cell_[c].near += tokens;
      rows += cell_[c].gain;
      const int i = varying.cells[c].gpu - node;
      if (i >= first && i < last) {  // lands there and needs no second hop
        const double stays = gpu_tokens_[static_cast<std::size_t>(home + i)] * cell_[c].gain;
        out.intra_out[static_cast<std::size_t>(node + i)] -= stays;
        out.intra_in[static_cast<std::size_t>(node + i)] -= stays;
      }
    }
    const auto n = static_cast<std::size_t>(node / size);
    const double hit = node == home ? 0.0 : list_hit_[lists[n]] - node_hit_[n];
    hits += hit;
    for (int i = first; i < last; ++i) {
      const double here = gpu_tokens_[static_cast<std::size_t>(home + i)];
      out.intra_out[static_cast<std::size_t>(node + i)] += here * rows;
      out.inter_in[static_cast<std::size_t>(node + i)] += here * hit;
    }
  }
  for (int i = first; i < last; ++i) {
    out.inter_out[static_cast<std::size_t>(home + i)] += gpu_tokens_[static_cast<std::size_t>(home + i)] * hits;
  }
}

// What arrives at the cells' GPUs from the sources that were sent.
void TrafficModel::arrive_by_cell(const VaryingShares& varying, std::span<const float> pi, LayerTraffic& out) {
  for (std::size_t c = 0; c < cell_.size(); ++c) {
    const VaryingShares::Cell& cell = varying.cells[c];
    const auto g = static_cast<std::size_t>(cell.gpu);
    out.intra_in[g] += cell_[c].near * cell_[c].gain;
    out.inter_in[g] += cell_[c].far * cell_[c].gain;
    const double tokens = cell_[c].near + cell_[c].far;
    for (std::uint32_t i = cell.first; i < cell.last; ++i) {
      const VaryingShares::Entry& entry = varying.entries[i];
      slot_rows_[static_cast<std::size_t>(entry.slot)] +=
          tokens * static_cast<double>(pi[static_cast<std::size_t>(entry.expert)] * entry.share);
    }
  }
}

void TrafficModel::send_by_source(int l, std::span<const float> pi, LayerTraffic& out) {
  const VaryingShares& varying = varying_[static_cast<std::size_t>(l)];
  const double weight = dedup_ == Dedup::kNone ? 0.0 : pair_weight(pi);
  common_part(l, pi, weight);
  send(out);
  gain_by_cell(varying, pi, weight);
  for (const VaryingShares::Source& source : varying.sources) {
    if (dedup_ == Dedup::kNode) {
      send_gain_per_node(l, source, out);
    } else {
      send_gain_per_gpu(varying, source, out);
    }
  }
  arrive_by_cell(varying, pi, out);
}

}  // namespace epsim
