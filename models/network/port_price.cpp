#include <algorithm>

#include "models/network/network.h"

namespace epsim {

void Network::port_prices(const TrafficMatrix& traffic, Bytes row, Direction direction, PortPrices& out) const {
  const CollectiveKind kind = collective_of(transport_, direction);
  const auto price = [&](const Tiers& wire) {
    Price slower;
    if (wire.inside.count() > 0) {
      slower = profile_.intra.time(inside(kind), cluster_.node.gpus, wire.inside);
    }
    if (wire.between.count() > 0) {
      const Price between = profile_.inter.time(kind, cluster_.gpus(), wire.between);
      slower = between.time > slower.time ? between : slower;
    }
    return slower;
  };
  const PortTiers wires = port_tiers(traffic, row, direction);
  out.in.resize(wires.in.size());
  out.out.resize(wires.out.size());
  std::transform(wires.in.begin(), wires.in.end(), out.in.begin(), price);
  std::transform(wires.out.begin(), wires.out.end(), out.out.begin(), price);
}

Network::PortWires Network::port_wires(const TrafficMatrix& traffic, Bytes row) const {
  const auto slower = [](const Tiers& wire) { return std::max(wire.inside, wire.between); };
  const PortTiers wires = port_tiers(traffic, row, Direction::kDispatch);
  PortWires out;
  std::transform(wires.in.begin(), wires.in.end(), std::back_inserter(out.in), slower);
  std::transform(wires.out.begin(), wires.out.end(), std::back_inserter(out.out), slower);
  return out;
}

Price Network::over_all(CollectiveKind kind, Bytes bytes) const {
  const double gpus = cluster_.gpus(), per_node = cluster_.node.gpus, nodes = cluster_.nodes;
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  const Bytes moved = bytes * passes(kind);
  const Tiers least = gather_floor(moved);
  Price slower;
  if (per_node > 1) {  // inside, a port carries all but the GPU's own part, whichever node it came from
    const Seconds wire = moved * ((gpus - 1) / gpus) / cluster_.node.intra_rate;
    slower = profile_.intra.time(inside(kind), cluster_.node.gpus, std::max(wire, least.inside));
  }
  if (nodes > 1) {
    const Seconds wire =
        moved * ((nodes - 1) / nodes) / (groups_.rate * (static_cast<double>(groups_.groups_per_node)));
    const Price between = profile_.inter.time(kind, cluster_.gpus(), std::max(wire, least.between));
    slower = between.time > slower.time ? between : slower;
  }
  return slower;
}

}  // namespace epsim
