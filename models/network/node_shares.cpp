#include "models/network/node_shares.h"

#include <algorithm>
#include <map>
#include <utility>

namespace epsim {

NodeShares node_shares(const LayerPlacement& layer, const ClusterShape& shape, std::span<const float> shares) {
  NodeShares out{{0}, {}};
  std::vector<double> sum(layer.copies.size(), 0.0);
  for (int n = 0; n < shape.nodes(); ++n) {
    const int gpu = n * shape.gpus_per_node;
    const auto begin = static_cast<std::size_t>(layer.first_slot[static_cast<std::size_t>(gpu)]);
    const auto end = static_cast<std::size_t>(layer.first_slot[static_cast<std::size_t>(gpu + shape.gpus_per_node)]);
    std::vector<std::int32_t> here;
    for (std::size_t s = begin; s < end; ++s) {
      if (shares[s] > 0) {
        here.push_back(layer.expert[s]);
        sum[static_cast<std::size_t>(layer.expert[s])] += static_cast<double>(shares[s]);
      }
    }
    std::sort(here.begin(), here.end());
    here.erase(std::unique(here.begin(), here.end()), here.end());
    for (const std::int32_t expert : here) {
      double& share = sum[static_cast<std::size_t>(expert)];
      // Shares of all copies sum to one but for rounding.
      out.entries.push_back({expert, share > 1.0 - 1e-6 ? 1.0F : static_cast<float>(share)});
      share = 0;
    }
    out.first.push_back(out.entries.size());
  }
  return out;
}

NodeShares common_node_shares(const LayerPlacement& layer, const ClusterShape& shape,
                              std::span<const std::int32_t> slots) {
  std::vector<float> shares(layer.share.size(), 0.0F);
  for (const std::int32_t slot : slots) {
    shares[static_cast<std::size_t>(slot)] = layer.share[static_cast<std::size_t>(slot)];
  }
  return node_shares(layer, shape, shares);
}

SourceNodeShares source_node_shares(const LayerPlacement& layer, const ClusterShape& shape) {
  SourceNodeShares out{{{0}, {}}, {}};
  if (layer.by_source.empty()) {
    return out;
  }
  using Key = std::vector<std::pair<std::int32_t, float>>;
  std::map<Key, std::uint32_t> known;
  const std::size_t slots = layer.expert.size(), sources = layer.by_source.share.size() / slots;
  for (std::size_t s = 0; s < sources; ++s) {
    const NodeShares of_source = node_shares(layer, shape, std::span(layer.by_source.share).subspan(s * slots, slots));
    for (std::size_t n = 0; n < of_source.lists(); ++n) {
      Key key;
      for (const NodeShares::Entry& entry : of_source.list(n)) {
        key.emplace_back(entry.expert, entry.share);
      }
      const auto [at, is_new] = known.try_emplace(std::move(key), static_cast<std::uint32_t>(out.lists.lists()));
      if (is_new) {
        const std::span<const NodeShares::Entry> list = of_source.list(n);
        out.lists.entries.insert(out.lists.entries.end(), list.begin(), list.end());
        out.lists.first.push_back(out.lists.entries.size());
      }
      out.list_of.push_back(at->second);
    }
  }
  return out;
}

}  // namespace epsim
