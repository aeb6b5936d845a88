#include <algorithm>

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

}  // namespace epsim
