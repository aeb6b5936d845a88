#include <algorithm>
#include <numeric>

#include "models/network/network.h"
#include "sim/core/check.h"

namespace epsim {

Price Network::port_price(const LayerTraffic& traffic, Bytes row, Direction direction, int gpu, PortSide side) const {
  EPSIM_CHECK(!needs_pairs(), "a GPU's ports are all that can be busy");
  // Combine carries the rows of dispatch back: what came in goes out.
  const bool out = (side == PortSide::kOut) == (direction == Direction::kDispatch);
  const std::vector<double>& intra = out ? traffic.intra_out : traffic.intra_in;
  const std::vector<double>& inter = out ? traffic.inter_out : traffic.inter_in;
  Price slower;
  const Bytes inside = row * intra[static_cast<std::size_t>(gpu)];
  if (inside.count() > 0) {
    slower = profile_.intra.time(collective_of(transport_, direction), cluster_.node.gpus,
                                 inside / cluster_.node.intra_rate);
  }
  if (groups_.groups_per_node > 0 && cluster_.nodes > 1) {
    const int first = gpu / groups_.gpus_per_group * groups_.gpus_per_group;
    double rows = 0;
    for (int g = first; g < first + groups_.gpus_per_group; ++g) {
      rows += inter[static_cast<std::size_t>(g)];
    }
    const Seconds wire = row * rows / groups_.rate;
    if (wire.count() > 0) {
      const Price between = profile_.inter.time(collective_of(transport_, direction), cluster_.gpus(), wire);
      slower = between.time > slower.time ? between : slower;
    }
  }
  return slower;
}

Seconds Network::port_wire(const LayerTraffic& traffic, Bytes row, int gpu, PortSide side) const {
  EPSIM_CHECK(!needs_pairs(), "a GPU's ports are all that can be busy");
  const bool out = side == PortSide::kOut;
  const Seconds inside =
      row * (out ? traffic.intra_out : traffic.intra_in)[static_cast<std::size_t>(gpu)] / cluster_.node.intra_rate;
  if (groups_.groups_per_node == 0) {
    return inside;
  }
  const std::vector<double>& inter = out ? traffic.inter_out : traffic.inter_in;
  const auto first = inter.begin() + gpu / groups_.gpus_per_group * groups_.gpus_per_group;
  return std::max(inside, row * std::accumulate(first, first + groups_.gpus_per_group, 0.0) / groups_.rate);
}

void Network::count(const LayerTraffic& traffic, Bytes row, std::vector<double>& link_bytes) const {
  EPSIM_CHECK(!needs_pairs(), "links are ports and NICs");
  const std::size_t gpus = traffic.intra_out.size();
  for (std::size_t g = 0; g < gpus; ++g) {
    link_bytes[2 * g] += traffic.intra_out[g] * row.count();
    link_bytes[2 * g + 1] += traffic.intra_in[g] * row.count();
    if (groups_.groups_per_node > 0) {
      const std::size_t group = gpus + g / static_cast<std::size_t>(groups_.gpus_per_group);
      link_bytes[2 * group] += traffic.inter_out[g] * row.count();
      link_bytes[2 * group + 1] += traffic.inter_in[g] * row.count();
    }
  }
}

Price Network::over_all(CollectiveKind kind, Bytes bytes) const {
  const double gpus = cluster_.gpus(), per_node = cluster_.node.gpus, nodes = cluster_.nodes;
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  Price slower;
  if (per_node > 1) {  // inside, a port carries all but the GPU's own part, whichever node it came from
    slower = profile_.intra.time(kind, cluster_.node.gpus, bytes * ((gpus - 1) / gpus) / cluster_.node.intra_rate);
  }
  if (nodes > 1) {
    const Seconds wire =
        bytes * ((nodes - 1) / nodes) / (groups_.rate * (static_cast<double>(groups_.groups_per_node)));
    const Price between = profile_.inter.time(kind, cluster_.gpus(), wire);
    slower = between.time > slower.time ? between : slower;
  }
  return slower;
}

}  // namespace epsim
