#include "models/network/pxn.h"

#include <algorithm>
#include <numeric>

namespace epsim {
namespace {

// Whether the rows are products of where tokens lie and what each of them sends: not pair by pair, nor once a node.
bool has_products(const TrafficMatrix& traffic) {
  const auto plain = [](const TrafficMatrix::Row& row) { return row.hit.empty(); };
  return !traffic.mixes().empty() && std::all_of(traffic.mixes().begin(), traffic.mixes().end(), [&](const auto& mix) {
    return std::all_of(mix.rows.begin(), mix.rows.end(), plain);
  });
}

// Calls use(sent, reach) for rows sent[from] x reach[to] in the direction that they travel in; both are [GPU].
template <class Use>
void for_each_product(const TrafficMatrix& traffic, Direction direction, Use use) {
  std::vector<double> tokens(traffic.tokens.size()), reach;
  for (const TrafficMatrix::Mix& mix : traffic.mixes()) {
    for (const TrafficMatrix::Row& row : mix.rows) {
      std::fill(tokens.begin(), tokens.end(), 0.0);
      std::copy(traffic.tokens.begin() + row.first, traffic.tokens.begin() + row.last, tokens.begin() + row.first);
      TrafficMatrix::reach(mix, row, reach);
      direction == Direction::kDispatch ? use(tokens, reach) : use(reach, tokens);
    }
  }
}

// Calls use(from, to, rows) for all rows that travel.
template <class Use>
void for_each_pair(const TrafficMatrix& traffic, int gpus, Direction direction, Use use) {
  const std::vector<double> pairs = traffic.pairs();
  for (int from = 0; from < gpus; ++from) {
    for (int to = 0; to < gpus; ++to) {
      const double rows = pairs[direction == Direction::kDispatch ? from * gpus + to : to * gpus + from];
      if (rows > 0) {
        use(from, to, rows);
      }
    }
  }
}

}  // namespace

int Pxn::relay(int from, int to) const {
  if (shape_.node_of(from) == shape_.node_of(to)) {
    return from;
  }
  const int index = to % shape_.gpus_per_node;
  return from - from % shape_.gpus_per_node + index - index % per_nic_;
}

// What a node's GPUs together send to those of a rail in other nodes goes through its relay.
void Pxn::relay_products(std::span<const double> sent, std::span<const double> reach, PortRows& out) const {
  const int per_node = shape_.gpus_per_node, nodes = shape_.nodes(), rails = rails_per_node();
  std::vector<double> by_relay(static_cast<std::size_t>(nodes) * rails), of_rail(rails);  // reach
  for (int relay = 0; relay < nodes * rails; ++relay) {
    const auto first = reach.begin() + relay * per_nic_;
    by_relay[relay] = std::accumulate(first, first + per_nic_, 0.0);
    of_rail[relay % rails] += by_relay[relay];
  }
  const double all = std::accumulate(of_rail.begin(), of_rail.end(), 0.0);
  for (int n = 0; n < nodes; ++n) {
    const auto first = sent.begin() + n * per_node;
    const double of_node = std::accumulate(first, first + per_node, 0.0);
    if (of_node == 0) {
      continue;
    }
    const double near = std::accumulate(&by_relay[n * rails], &by_relay[n * rails] + rails, 0.0);
    for (int g = n * per_node; g < (n + 1) * per_node; ++g) {
      out.intra_out[g] += sent[g] * (all - near);
    }
    for (int rail = 0; rail < rails; ++rail) {
      const int relay = n * per_node + rail * per_nic_;
      const double far = of_rail[rail] - by_relay[n * rails + rail];
      out.inter_out[relay] += of_node * far;
      out.intra_in[relay] += (of_node - sent[relay]) * far;
      out.intra_out[relay] -= sent[relay] * far;  // its own rows need no hop
    }
  }
}

void Pxn::relay_pairs(const TrafficMatrix& traffic, Direction direction, PortRows& out) const {
  for_each_pair(traffic, shape_.gpus, direction, [&](int from, int to, double rows) {
    if (shape_.node_of(from) == shape_.node_of(to)) {
      return;
    }
    const int via = relay(from, to);
    out.inter_out[via] += rows;
    if (via != from) {
      out.intra_out[from] += rows;
      out.intra_in[via] += rows;
    }
  });
}

void Pxn::ports(const TrafficMatrix& traffic, Direction direction, PortRows& out) const {
  const bool dispatch = direction == Direction::kDispatch;
  out.intra_out = dispatch ? traffic.intra_out : traffic.intra_in;
  out.intra_in = dispatch ? traffic.intra_in : traffic.intra_out;
  out.inter_in = dispatch ? traffic.inter_in : traffic.inter_out;
  out.inter_out.assign(shape_.gpus, 0.0);
  if (!has_products(traffic)) {
    relay_pairs(traffic, direction, out);
    return;
  }
  for_each_product(traffic, direction, [&](const std::vector<double>& sent, const std::vector<double>& reach) {
    relay_products(sent, reach, out);
  });
}

void Pxn::rails(const TrafficMatrix& traffic, Direction direction, std::vector<double>& out) const {
  const int per_node = shape_.gpus_per_node, nodes = shape_.nodes();
  out.assign(static_cast<std::size_t>(rails_per_node()) * nodes * gpus_per_rail(), 0.0);
  const auto row_of = [&](int rail, int node) {
    return out.begin() + (static_cast<std::ptrdiff_t>(rail) * nodes + node) * gpus_per_rail();
  };
  if (!has_products(traffic)) {
    for_each_pair(traffic, shape_.gpus, direction, [&](int from, int to, double rows) {
      const int node = shape_.node_of(from), index = to % per_node;
      if (node != shape_.node_of(to)) {
        row_of(index / per_nic_, node)[shape_.node_of(to) * per_nic_ + index % per_nic_] += rows;
      }
    });
    return;
  }
  for_each_product(traffic, direction, [&](const std::vector<double>& sent, const std::vector<double>& reach) {
    for (int node = 0; node < nodes; ++node) {
      const auto first = sent.begin() + node * per_node;
      const double rows = std::accumulate(first, first + per_node, 0.0);
      for (int to = 0; rows > 0 && to < shape_.gpus; ++to) {
        if (shape_.node_of(to) != node) {
          const int index = to % per_node;
          row_of(index / per_nic_, node)[shape_.node_of(to) * per_nic_ + index % per_nic_] += rows * reach[to];
        }
      }
    }
  });
}

TrafficMatrix Pxn::slowed(const TrafficMatrix& traffic, Direction direction, std::span<const double> link_speed,
                          std::span<const double> nic_speed) const {
  const auto link = [&](int gpu) { return link_speed.empty() ? 1.0 : link_speed[gpu]; };
  const auto nic = [&](int gpu) { return link(gpu) * (nic_speed.empty() ? 1.0 : nic_speed[gpu]); };
  const bool dispatch = direction == Direction::kDispatch;
  TrafficMatrix out;
  out.clear(shape_);
  for_each_pair(traffic, shape_.gpus, direction, [&](int from, int to, double rows) {
    const int via = relay(from, to);
    const bool inside = shape_.node_of(from) == shape_.node_of(to);
    const double speed = inside ? std::min(link(from), link(to)) : std::min({link(from), nic(via), nic(to)});
    out.add(dispatch ? from : to, dispatch ? to : from, rows / speed);
  });
  out.executed = traffic.executed;
  out.touched = traffic.touched;
  return out;
}

}  // namespace epsim
