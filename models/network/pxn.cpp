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

// Calls use(sent, reach) for rows sent[from] x reach[to] in the direction that they travel in.
template <class Use>
void for_each_product(const TrafficMatrix& traffic, Direction direction, Use use) {
  std::vector<double> reach;
  for (const TrafficMatrix::Mix& mix : traffic.mixes()) {
    for (const TrafficMatrix::Row& row : mix.rows) {
      TrafficMatrix::reach(mix, row, reach);
      const Pxn::Factor tokens{traffic.tokens.data(), row.first, row.last};
      const Pxn::Factor reached{reach.data(), 0, static_cast<int>(reach.size())};
      direction == Direction::kDispatch ? use(tokens, reached) : use(reached, tokens);
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

double Pxn::Factor::within(int begin, int gpus) const {
  double out = 0;
  for (int g = std::max(first, begin); g < std::min(last, begin + gpus); ++g) {
    out += of[g];
  }
  return out;
}

int Pxn::relay(int from, int to) const {
  const bool inside = shape_.node_of(from) == shape_.node_of(to);
  return inside ? from : from - from % shape_.gpus_per_node + place_of_relay(to);
}

// What a node's GPUs together send to those of a rail in other nodes goes through its relay.
void Pxn::relay_products(const Factor& sent, const Factor& reach, std::vector<double>& sums, PortRows& out) const {
  const int per_node = shape_.gpus_per_node, nodes = shape_.nodes(), rails = rails_per_node();
  sums.assign(static_cast<std::size_t>(nodes + 1) * rails, 0.0);
  double *by_relay = sums.data(), *of_rail = by_relay + nodes * rails;  // reach
  for (int node = reach.first / per_node; node * per_node < reach.last; ++node) {
    for (int rail = 0; rail < rails; ++rail) {
      const double rows = reach.within(node * per_node + rail * per_nic_, per_nic_);
      by_relay[node * rails + rail] = rows;
      of_rail[rail] += rows;
    }
  }
  const double all = std::accumulate(of_rail, of_rail + rails, 0.0);
  for (int n = sent.first / per_node; n * per_node < sent.last; ++n) {
    const double of_node = sent.within(n * per_node, per_node);
    if (of_node == 0) {
      continue;
    }
    const double near = std::accumulate(by_relay + n * rails, by_relay + (n + 1) * rails, 0.0);
    for (int g = std::max(sent.first, n * per_node); g < std::min(sent.last, (n + 1) * per_node); ++g) {
      out.intra_out[g] += sent.of[g] * (all - near);
    }
    for (int rail = 0; rail < rails; ++rail) {
      const int relay = n * per_node + rail * per_nic_;
      const double far = of_rail[rail] - by_relay[n * rails + rail];
      const double own = relay >= sent.first && relay < sent.last ? sent.of[relay] : 0.0;
      out.inter_out[relay] += of_node * far;
      out.intra_in[relay] += (of_node - own) * far;
      out.intra_out[relay] -= own * far;  // its own rows need no hop
    }
  }
}

void Pxn::relay_pairs(const TrafficMatrix& traffic, Direction direction, PortRows& out) const {
  std::vector<int> node(shape_.gpus), place(shape_.gpus);  // [GPU] the node's first GPU; its relay's place in a node
  for (int g = 0; g < shape_.gpus; ++g) {
    node[g] = g - g % shape_.gpus_per_node;
    place[g] = place_of_relay(g);
  }
  for_each_pair(traffic, shape_.gpus, direction, [&](int from, int to, double rows) {
    if (node[from] == node[to]) {
      return;
    }
    const int via = node[from] + place[to];
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
  std::vector<double> sums;
  for_each_product(traffic, direction,
                   [&](const Factor& sent, const Factor& reach) { relay_products(sent, reach, sums, out); });
}

void Pxn::node_rows(const TrafficMatrix& traffic, Direction direction, const std::vector<int>& nodes,
                    std::vector<double>& out) const {
  const int per_node = shape_.gpus_per_node, gpus = shape_.gpus;
  out.assign(nodes.size() * gpus, 0.0);
  std::vector<double*> of_node(shape_.nodes(), nullptr);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    of_node[nodes[n]] = out.data() + n * gpus;
  }
  if (!has_products(traffic)) {
    for_each_pair(traffic, gpus, direction, [&](int from, int to, double rows) {
      if (double* to_each = of_node[shape_.node_of(from)]; to_each != nullptr) {
        to_each[to] += rows;
      }
    });
  } else {
    for_each_product(traffic, direction, [&](const Factor& sent, const Factor& reach) {
      for (int node = sent.first / per_node; node * per_node < sent.last; ++node) {
        double* to_each = of_node[node];
        const double rows = to_each == nullptr ? 0 : sent.within(node * per_node, per_node);
        for (int to = reach.first; to < reach.last && rows > 0; ++to) {
          to_each[to] += rows * reach.of[to];
        }
      }
    });
  }
  for (const int node : nodes) {
    std::fill_n(of_node[node] + node * per_node, per_node, 0.0);
  }
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
