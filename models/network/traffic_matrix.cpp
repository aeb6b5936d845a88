#include "models/network/traffic_matrix.h"

#include <algorithm>
#include <numeric>

#include "sim/core/widest_vectors.h"

namespace epsim {
namespace {

// Tokens of a node and of all others; rows that a token sends to its GPUs and to all others'.
struct NodeRows {
  double tokens, other_tokens, reach, other_reach;
};

EPSIM_WIDEST_VECTORS void count_node(const NodeRows& node, const double* __restrict tokens,
                                     const double* __restrict reach, int gpus, double* __restrict intra_out,
                                     double* __restrict intra_in, double* __restrict inter_out,
                                     double* __restrict inter_in) {
  for (int i = 0; i < gpus; ++i) {
    intra_out[i] += tokens[i] * (node.reach - reach[i]);
    inter_out[i] += tokens[i] * node.other_reach;
    intra_in[i] += (node.tokens - tokens[i]) * reach[i];
    inter_in[i] += node.other_tokens * reach[i];
  }
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void sum_by_node(const std::vector<double>& values, const ClusterShape& shape, std::vector<double>& out) {
  out.assign(shape.nodes(), 0.0);
  const double* value = values.data();
  for (double& node : out) {
    for (int i = 0; i < shape.gpus_per_node; ++i) {
      node += *value++;
    }
  }
}

// Calls hop(from, to, rows) for what the tokens of one GPU make.
template <class Hop>
void for_each_hop(const TrafficMatrix::Source& source, const ClusterShape& shape, int from, Hop hop) {
  const double tokens = source.tokens[from];
  for (int node = 0; node < shape.nodes(); ++node) {
    const int first = node * shape.gpus_per_node;
    const int sender = source.hit.empty() ? from : first + from % shape.gpus_per_node;
    if (sender != from) {
      hop(from, sender, tokens * source.hit[node]);
    }
    for (int to = first; to < first + shape.gpus_per_node; ++to) {
      if (to != sender) {
        hop(sender, to, tokens * source.reach[to]);
      }
    }
  }
}

}  // namespace

void TrafficMatrix::clear(const ClusterShape& shape) {
  shape_ = shape;
  used_ = 0;
  pairs_.clear();
  for (std::vector<double>* rows : {&intra_out, &intra_in, &inter_out, &inter_in}) {
    rows->assign(shape.gpus, 0.0);
  }
}

void TrafficMatrix::add(int from, int to, double rows) {
  if (from == to) {
    return;
  }
  const bool inside = shape_.node_of(from) == shape_.node_of(to);
  (inside ? intra_out : inter_out)[from] += rows;
  (inside ? intra_in : inter_in)[to] += rows;
  pairs_.resize(static_cast<std::size_t>(shape_.gpus) * shape_.gpus);
  pairs_[from * shape_.gpus + to] += rows;
}

TrafficMatrix::Source& TrafficMatrix::new_source() {
  if (used_ == sources_.size()) {
    sources_.emplace_back();
  }
  Source& source = sources_[used_++];
  source.hit.clear();
  return source;
}

void TrafficMatrix::count(Source& source) {
  sum_by_node(source.tokens, shape_, source.node_tokens);
  sum_by_node(source.reach, shape_, source.node_reach);
  if (source.hit.empty()) {
    count_per_gpu(source);
  } else {
    count_per_node(source);
  }
}

void TrafficMatrix::count_per_gpu(const Source& source) {
  const double all_tokens = sum(source.node_tokens), all_reach = sum(source.node_reach);
  const int per_node = shape_.gpus_per_node;
  for (int n = 0, g = 0; n < shape_.nodes(); ++n, g += per_node) {
    if (source.node_tokens[n] == 0) {  // most nodes, where each GPU is a source
      for (int i = g; i < g + per_node; ++i) {
        inter_in[i] += all_tokens * source.reach[i];
      }
      continue;
    }
    const NodeRows node{source.node_tokens[n], all_tokens - source.node_tokens[n], source.node_reach[n],
                        all_reach - source.node_reach[n]};
    count_node(node, &source.tokens[g], &source.reach[g], per_node, &intra_out[g], &intra_in[g], &inter_out[g],
               &inter_in[g]);
  }
}

void TrafficMatrix::count_per_node(const Source& source) {
  const double all_hits = sum(source.hit);
  const int per_node = shape_.gpus_per_node;
  landed_.resize(per_node);
  for (int n = 0; n < shape_.nodes(); ++n) {
    remote_.assign(per_node, 0.0);
    for (int m = 0; m < shape_.nodes(); ++m) {
      const bool sends = m != n && source.node_tokens[m] > 0;
      for (int i = 0; i < per_node && sends; ++i) {
        remote_[i] += source.tokens[m * per_node + i];
      }
    }
    double landed_sum = 0;
    for (int i = 0; i < per_node; ++i) {  // tokens that other nodes' GPUs of this index own
      const int g = n * per_node + i;
      landed_[i] = remote_[i] + source.tokens[g];  // plus its own: fanned out inside just alike
      landed_sum += landed_[i];
      inter_in[g] += remote_[i] * source.hit[n];
      inter_out[g] += source.tokens[g] * (all_hits - source.hit[n]);
    }
    for (int i = 0; i < per_node; ++i) {
      const int g = n * per_node + i;
      intra_out[g] += landed_[i] * (source.node_reach[n] - source.reach[g]);
      intra_in[g] += (landed_sum - landed_[i]) * source.reach[g];
    }
  }
}

std::vector<double> TrafficMatrix::pairs() const {
  if (!pairs_.empty()) {
    return pairs_;
  }
  std::vector<double> out(static_cast<std::size_t>(shape_.gpus) * shape_.gpus);
  for (const Source& source : sources()) {
    for (int from = 0; from < shape_.gpus; ++from) {
      if (source.tokens[from] > 0) {
        for_each_hop(source, shape_, from,
                     [&](int sender, int to, double rows) { out[sender * shape_.gpus + to] += rows; });
      }
    }
  }
  return out;
}

// A link at a share of its rate carries its rows as if they were that many more. A source's flows go by each sender's
// own pace, and by a receiver's against the fastest one's, so that links that are all alike slow count once.
void TrafficMatrix::slow_down(std::span<const double> speed, bool nics_only) {
  for (int g = 0; g < shape_.gpus; ++g) {
    intra_out[g] /= nics_only ? 1.0 : speed[g];
    intra_in[g] /= nics_only ? 1.0 : speed[g];
    inter_out[g] /= speed[g];
    inter_in[g] /= speed[g];
  }
  for (int from = 0; from < shape_.gpus; ++from) {
    for (int to = 0; to < shape_.gpus; ++to) {
      if (!nics_only || shape_.node_of(from) != shape_.node_of(to)) {
        pairs_[from * shape_.gpus + to] /= std::min(speed[from], speed[to]);
      }
    }
  }
  const double fastest = *std::max_element(speed.begin(), speed.end());
  for (std::size_t s = 0; s < used_; ++s) {
    for (int g = 0; g < shape_.gpus; ++g) {
      sources_[s].tokens[g] /= speed[g];
      sources_[s].reach[g] *= fastest / speed[g];
    }
  }
}

TrafficMatrix TrafficMatrix::slowed(std::span<const double> link_speed, std::span<const double> nic_speed) const {
  TrafficMatrix out = *this;
  out.pairs_ = pairs();
  if (!link_speed.empty()) {
    out.slow_down(link_speed, false);
  }
  if (!nic_speed.empty()) {
    out.slow_down(nic_speed, true);
  }
  return out;
}

}  // namespace epsim
