#include "models/network/traffic_matrix.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/simd.h"

namespace epsim {
namespace {

// Rows out of the GPUs of a source, whose tokens send `near` rows inside their node and `far` to others.
EPSIM_SIMD void send_rows(double near, double far, const double* __restrict tokens, const double* __restrict reach,
                          int gpus, double* __restrict intra_out, double* __restrict inter_out) {
  for (int i = 0; i < gpus; ++i) {
    intra_out[i] += tokens[i] * (near - reach[i]);
    inter_out[i] += tokens[i] * far;
  }
}

// Rows into GPUs from the tokens that see their common lanes.
EPSIM_SIMD void receive_rows(const TrafficMatrix::Mix& mix, int gpus, double* __restrict intra_in,
                             double* __restrict inter_in) {
  const double *near = mix.near.data(), *far = mix.far.data(), *own = mix.own.data(), *reach = mix.reach.data();
  for (int g = 0; g < gpus; ++g) {
    intra_in[g] += (near[g] - own[g]) * reach[g];
    inter_in[g] += far[g] * reach[g];
  }
}

double sum(const double* values, int n) { return std::accumulate(values, values + n, 0.0); }

// Calls hop(from, to, rows) for what the tokens of one GPU make.
template <class Hop>
void for_each_hop(const TrafficMatrix::Row& row, const std::vector<double>& reach, const ClusterShape& shape, int from,
                  double tokens, Hop hop) {
  for (int node = 0; node < shape.nodes(); ++node) {
    const int first = node * shape.gpus_per_node;
    const int sender = row.hit.empty() ? from : first + from % shape.gpus_per_node;
    if (sender != from) {
      hop(from, sender, tokens * row.hit[node]);
    }
    for (int to = first; to < first + shape.gpus_per_node; ++to) {
      if (to != sender) {
        hop(sender, to, tokens * reach[to]);
      }
    }
  }
}

}  // namespace

void TrafficMatrix::clear(const ClusterShape& shape, std::span<const double> of_gpus) {
  shape_ = shape;
  tokens.assign(of_gpus.begin(), of_gpus.end());
  if (tokens != placed_) {
    placed_ = tokens;
    for (Mix& mix : mixes_) {
      mix.lanes = nullptr;
    }
  }
  used_ = 0;
  pairs_.clear();
  for (std::vector<double>* values : {&intra_out, &intra_in, &inter_out, &inter_in}) {
    values->assign(shape.gpus, 0.0);
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

// Adds the tokens of GPUs [first, last) of a source to the lanes that they see in place of common ones.
void TrafficMatrix::place(const SourceLanes::Source& source, int first, int last, Mix& mix) {
  const double here = sum(&tokens[first], last - first);
  node_tokens_[source.node] += here;
  for (const std::int32_t lane : mix.lanes->near(source)) {
    mix.near[lane] += here;
    if (const int g = mix.lanes->gpu[lane]; g >= first && g < last) {
      mix.own[lane] = tokens[g];
      mix.own[g] = 0;
    }
  }
  for (const std::int32_t lane : mix.lanes->far(source)) {
    mix.far[lane] += here;
  }
}

void TrafficMatrix::place(int first, int last, Mix& mix) {
  for (std::vector<double>* values : {&mix.near, &mix.far, &mix.own}) {
    values->assign(mix.lanes->lanes(), 0.0);
  }
  std::copy(tokens.begin() + first, tokens.begin() + last, mix.own.begin() + first);
  node_tokens_.assign(shape_.nodes(), 0.0);
  std::size_t rows = 0;
  for (const SourceLanes::Source& source : mix.lanes->sources) {
    const int from = std::max(first, source.first), to = std::min(last, source.last);
    if (from >= to) {
      continue;
    }
    place(source, from, to, mix);
    if (rows > 0 && mix.rows[rows - 1].source->choice == source.choice) {
      mix.rows[rows - 1].last = to;
      continue;
    }
    mix.rows.resize(std::max(mix.rows.size(), ++rows));
    Row& row = mix.rows[rows - 1];
    row.first = from;
    row.last = to;
    row.source = &source;
  }
  mix.rows.resize(rows);
  const double all = sum(node_tokens_.data(), shape_.nodes());
  const int per_node = shape_.gpus_per_node;
  for (int n = 0; n < shape_.nodes(); ++n) {
    std::fill_n(mix.near.begin() + n * per_node, per_node, node_tokens_[n]);
    std::fill_n(mix.far.begin() + n * per_node, per_node, all - node_tokens_[n]);
  }
  for (int lane = shape_.gpus; lane < mix.lanes->lanes(); ++lane) {
    const int g = mix.lanes->gpu[lane];
    mix.near[g] -= mix.near[lane];
    mix.far[g] -= mix.far[lane];
  }
}

TrafficMatrix::Mix& TrafficMatrix::new_mix(std::shared_ptr<const SourceLanes> lanes, int first, int last) {
  if (used_ == mixes_.size()) {
    mixes_.emplace_back();
  }
  Mix& mix = mixes_[used_++];
  // Layers in a row often have the same tokens and lanes.
  if (mix.lanes != lanes || mix.rows.front().first != first || mix.rows.back().last != last) {
    mix.lanes = std::move(lanes);
    place(first, last, mix);
  }
  for (Row& row : mix.rows) {
    row.hit.clear();
  }
  return mix;
}

void TrafficMatrix::reach(const Mix& mix, const Row& row, std::vector<double>& out) {
  out.assign(mix.reach.begin(), mix.reach.begin() + mix.lanes->gpus);
  for (const auto lanes : {mix.lanes->near(*row.source), mix.lanes->far(*row.source)}) {
    for (const std::int32_t lane : lanes) {
      out[mix.lanes->gpu[lane]] = mix.reach[lane];
    }
  }
}

void TrafficMatrix::count(const Mix& mix) {
  if (mix.rows.front().hit.empty()) {
    send_per_gpu(mix);
    arrive_per_gpu(mix);
    return;
  }
  for (const Row& row : mix.rows) {
    count_per_node(mix, row);
  }
}

void TrafficMatrix::send_per_gpu(const Mix& mix) {
  const SourceLanes& lanes = *mix.lanes;
  const int per_node = shape_.gpus_per_node, begin = mix.rows.front().first, end = mix.rows.back().last;
  node_reach_.resize(shape_.nodes());
  for (int n = 0; n < shape_.nodes(); ++n) {
    node_reach_[n] = sum(&mix.reach[n * per_node], per_node);
  }
  const double all = sum(node_reach_.data(), shape_.nodes());
  gain_.resize(lanes.lanes());
  for (int lane = shape_.gpus; lane < lanes.lanes(); ++lane) {
    gain_[lane] = mix.reach[lane] - mix.reach[lanes.gpu[lane]];
  }
  for (const SourceLanes::Source& source : lanes.sources) {
    const int first = std::max(begin, source.first), last = std::min(end, source.last);
    if (first >= last) {
      continue;
    }
    const double common = node_reach_[source.node];
    double near = common, far = all - common;
    for (const std::int32_t lane : lanes.near(source)) {
      near += gain_[lane];
      if (const int g = lanes.gpu[lane]; g >= first && g < last) {
        intra_out[g] -= tokens[g] * gain_[lane];
      }
    }
    for (const std::int32_t lane : lanes.far(source)) {
      far += gain_[lane];
    }
    send_rows(near, far, &tokens[first], &mix.reach[first], last - first, &intra_out[first], &inter_out[first]);
  }
}

void TrafficMatrix::arrive_per_gpu(const Mix& mix) {
  receive_rows(mix, shape_.gpus, intra_in.data(), inter_in.data());
  for (int lane = shape_.gpus; lane < mix.lanes->lanes(); ++lane) {
    const int g = mix.lanes->gpu[lane];
    intra_in[g] += (mix.near[lane] - mix.own[lane]) * mix.reach[lane];
    inter_in[g] += mix.far[lane] * mix.reach[lane];
  }
}

void TrafficMatrix::count_per_node(const Mix& mix, const Row& row) {
  const int per_node = shape_.gpus_per_node;
  const auto own = [&](int g) { return g >= row.first && g < row.last ? tokens[g] : 0.0; };
  const double all_hits = sum(row.hit.data(), shape_.nodes());
  reach(mix, row, row_);
  landed_.resize(per_node);
  for (int n = 0; n < shape_.nodes(); ++n) {
    remote_.assign(per_node, 0.0);
    for (int g = row.first; g < row.last; ++g) {
      remote_[g % per_node] += shape_.node_of(g) == n ? 0.0 : tokens[g];
    }
    double landed_sum = 0, node_reach = 0;
    for (int i = 0; i < per_node; ++i) {  // tokens that other nodes' GPUs of this index own
      const int g = n * per_node + i;
      landed_[i] = remote_[i] + own(g);  // plus its own: fanned out inside just alike
      landed_sum += landed_[i];
      node_reach += row_[g];
      inter_in[g] += remote_[i] * row.hit[n];
      inter_out[g] += own(g) * (all_hits - row.hit[n]);
    }
    for (int i = 0; i < per_node; ++i) {
      const int g = n * per_node + i;
      intra_out[g] += landed_[i] * (node_reach - row_[g]);
      intra_in[g] += (landed_sum - landed_[i]) * row_[g];
    }
  }
}

std::vector<double> TrafficMatrix::pairs() const {
  if (!pairs_.empty()) {
    return pairs_;
  }
  std::vector<double> out(static_cast<std::size_t>(shape_.gpus) * shape_.gpus), to_each;
  for (const Mix& mix : mixes()) {
    for (const Row& row : mix.rows) {
      reach(mix, row, to_each);
      for (int from = row.first; from < row.last; ++from) {
        if (tokens[from] > 0) {
          for_each_hop(row, to_each, shape_, from, tokens[from],
                       [&](int sender, int to, double rows) { out[sender * shape_.gpus + to] += rows; });
        }
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
  for (std::size_t g = 0; g < tokens.size(); ++g) {  // none where rows are added pair by pair
    tokens[g] /= speed[g];
  }
  for (std::size_t i = 0; i < used_; ++i) {
    for (int lane = 0; lane < mixes_[i].lanes->lanes(); ++lane) {
      mixes_[i].reach[lane] *= fastest / speed[mixes_[i].lanes->gpu[lane]];
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
