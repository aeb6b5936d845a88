#include "models/network/node_shares.h"

#include <algorithm>
#include <map>

namespace epsim {
namespace {

using List = std::vector<NodeShares::Entry>;

// The experts with a copy in a node, with `shares` [slot]. `sum` [expert] is scratch, all zero.
List list_of_node(const LayerPlacement& layer, const ClusterShape& shape, int node, std::span<const float> shares,
                  std::vector<double>& sum) {
  std::vector<std::int32_t> here;
  const int gpu = node * shape.gpus_per_node;
  for (int s = layer.first_slot[gpu]; s < layer.first_slot[gpu + shape.gpus_per_node]; ++s) {
    if (shares[s] > 0) {
      here.push_back(layer.expert[s]);
      sum[layer.expert[s]] += static_cast<double>(shares[s]);
    }
  }
  std::sort(here.begin(), here.end());
  here.erase(std::unique(here.begin(), here.end()), here.end());
  List out;
  for (const std::int32_t expert : here) {
    // Shares of all copies sum to one but for rounding.
    out.push_back({expert, sum[expert] > 1.0 - 1e-6 ? 1.0F : static_cast<float>(sum[expert])});
    sum[expert] = 0;
  }
  return out;
}

}  // namespace

NodeShares node_shares(const LayerPlacement& layer, const ClusterShape& shape) {
  NodeShares out{.first = {0}, .entries = {}, .list_of = {}};
  const std::vector<float>& shares = layer.by_source.empty() ? layer.share : layer.by_source.share;
  const std::size_t slots = layer.expert.size();
  std::vector<double> sum(layer.copies.size(), 0.0);
  std::map<List, std::int32_t> known;
  for (std::size_t at = 0; at < shares.size(); at += slots) {
    for (int n = 0; n < shape.nodes(); ++n) {
      const List list = list_of_node(layer, shape, n, std::span(shares).subspan(at, slots), sum);
      const auto [place, is_new] = known.try_emplace(list, static_cast<std::int32_t>(out.lists()));
      out.list_of.push_back(place->second);
      if (is_new) {
        out.entries.insert(out.entries.end(), list.begin(), list.end());
        out.first.push_back(out.entries.size());
      }
    }
  }
  return out;
}

}  // namespace epsim
