#include <algorithm>
#include <numeric>

#include "models/network/two_tier.h"

namespace epsim {

Price TwoTierNetwork::port_price(const LayerTraffic& traffic, Bytes row, Direction direction, int gpu,
                                 PortSide side) const {
  // Combine carries the rows of dispatch back: what came in goes out.
  const bool out = (side == PortSide::kOut) == (direction == Direction::kDispatch);
  const std::vector<double>& intra = out ? traffic.intra_out : traffic.intra_in;
  const std::vector<double>& inter = out ? traffic.inter_out : traffic.inter_in;
  Price slower;
  const Bytes inside = row * intra[static_cast<std::size_t>(gpu)];
  if (inside.count() > 0) {
    slower = profile_.intra.time(CollectiveKind::kAllToAll, cluster_.node.gpus, inside / cluster_.node.intra_rate);
  }
  if (groups_ > 0 && cluster_.nodes > 1) {
    const int first = gpu / group_gpus_ * group_gpus_;
    double rows = 0;
    for (int g = first; g < first + group_gpus_; ++g) {
      rows += inter[static_cast<std::size_t>(g)];
    }
    const Seconds wire = row * rows / group_rate_;
    if (wire.count() > 0) {
      const Price between = profile_.inter.time(CollectiveKind::kAllToAll, cluster_.gpus(), wire);
      slower = between.time > slower.time ? between : slower;
    }
  }
  return slower;
}

Seconds TwoTierNetwork::port_wire(const LayerTraffic& traffic, Bytes row, int gpu, PortSide side) const {
  const bool out = side == PortSide::kOut;
  const Seconds inside =
      row * (out ? traffic.intra_out : traffic.intra_in)[static_cast<std::size_t>(gpu)] / cluster_.node.intra_rate;
  if (groups_ == 0) {
    return inside;
  }
  const std::vector<double>& inter = out ? traffic.inter_out : traffic.inter_in;
  const auto first = inter.begin() + gpu / group_gpus_ * group_gpus_;
  return std::max(inside, row * std::accumulate(first, first + group_gpus_, 0.0) / group_rate_);
}

void TwoTierNetwork::count(const LayerTraffic& traffic, Bytes row, std::vector<double>& link_bytes) const {
  const std::size_t gpus = traffic.intra_out.size();
  for (std::size_t g = 0; g < gpus; ++g) {
    link_bytes[2 * g] += traffic.intra_out[g] * row.count();
    link_bytes[2 * g + 1] += traffic.intra_in[g] * row.count();
    if (groups_ > 0) {
      const std::size_t group = gpus + g / static_cast<std::size_t>(group_gpus_);
      link_bytes[2 * group] += traffic.inter_out[g] * row.count();
      link_bytes[2 * group + 1] += traffic.inter_in[g] * row.count();
    }
  }
}

Price TwoTierNetwork::over_all(CollectiveKind kind, Bytes bytes) const {
  const double gpus = cluster_.gpus(), per_node = cluster_.node.gpus, nodes = cluster_.nodes;
  if (gpus <= 1 || bytes.count() <= 0) {
    return {};
  }
  Price slower;
  if (per_node > 1) {  // inside, a port carries all but the GPU's own part, whichever node it came from
    slower = profile_.intra.time(kind, cluster_.node.gpus, bytes * ((gpus - 1) / gpus) / cluster_.node.intra_rate);
  }
  if (nodes > 1) {
    const Seconds wire = bytes * ((nodes - 1) / nodes) / (group_rate_ * (static_cast<double>(groups_) / nodes));
    const Price between = profile_.inter.time(kind, cluster_.gpus(), wire);
    slower = between.time > slower.time ? between : slower;
  }
  return slower;
}

}  // namespace epsim
