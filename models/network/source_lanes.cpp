#include "models/network/source_lanes.h"

#include <algorithm>

namespace epsim {
namespace {

// What some choices see of one GPU.
struct Seen {
  int choice = 0, choices = 0;  // the first of them; how many
  std::int32_t lane = 0;
};

// Adds the sources of a choice of GPUs [first, last) that sees `row` [GPU], node by node.
void add_sources(int choice, int first, int last, std::span<const std::int32_t> row, const ClusterShape& shape,
                 SourceLanes& out) {
  const auto is_apart = [&](std::int32_t lane) { return lane >= out.gpus; };
  while (first < last) {
    const int node = shape.node_of(first), home = node * shape.gpus_per_node, next = home + shape.gpus_per_node;
    SourceLanes::Source source{.choice = choice, .node = node, .first = first, .last = std::min(last, next)};
    source.near = static_cast<int>(out.apart.size());
    std::copy_if(row.begin() + home, row.begin() + next, std::back_inserter(out.apart), is_apart);
    source.far = static_cast<int>(out.apart.size());
    std::copy_if(row.begin(), row.begin() + home, std::back_inserter(out.apart), is_apart);
    std::copy_if(row.begin() + next, row.end(), std::back_inserter(out.apart), is_apart);
    source.end = static_cast<int>(out.apart.size());
    first = source.last;
    out.sources.push_back(source);
  }
}

}  // namespace

std::span<const float> shares_of(const LayerPlacement& layer, int choice) {
  return layer.by_source.empty()
             ? std::span<const float>(layer.share)
             : std::span(layer.by_source.share).subspan(choice * layer.expert.size()).first(layer.expert.size());
}

SourceLanes common_lanes(const ClusterShape& shape) {
  SourceLanes out{.gpus = shape.gpus, .gpu = {}, .choice = {}, .apart = {}, .sources = {}};
  for (int g = 0; g < shape.gpus; ++g) {
    out.gpu.push_back(g);
    out.choice.push_back(0);
  }
  add_sources(0, 0, shape.gpus, out.gpu, shape, out);
  return out;
}

SourceLanes source_lanes(const LayerPlacement& layer, const ClusterShape& shape) {
  SourceLanes out = common_lanes(shape);
  if (layer.by_source.empty()) {
    return out;
  }
  out.sources.clear();
  const int width = layer.by_source.gpus_per_source, choices = shape.gpus / width;
  std::vector<std::vector<std::int32_t>> rows(choices, std::vector<std::int32_t>(shape.gpus));  // in `seen` of the GPU
  for (int g = 0; g < shape.gpus; ++g) {
    const int first = layer.first_slot[g], slots = layer.first_slot[g + 1] - first;
    std::vector<Seen> seen;
    for (int c = 0; c < choices; ++c) {
      const std::span<const float> shares = shares_of(layer, c).subspan(first, slots);
      const auto same = std::find_if(seen.begin(), seen.end(), [&](const Seen& s) {
        return std::equal(shares.begin(), shares.end(), shares_of(layer, s.choice).begin() + first);
      });
      rows[c][g] = static_cast<std::int32_t>(same - seen.begin());
      if (same == seen.end()) {
        seen.push_back({.choice = c});
      }
      seen[rows[c][g]].choices += 1;
    }
    const auto common =
        std::max_element(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) { return a.choices < b.choices; });
    for (auto s = seen.begin(); s != seen.end(); ++s) {
      s->lane = s == common ? g : out.lanes();
      if (s != common) {
        out.gpu.push_back(g);
        out.choice.push_back(s->choice);
      }
    }
    out.choice[g] = common->choice;
    for (std::vector<std::int32_t>& row : rows) {
      row[g] = seen[row[g]].lane;
    }
  }
  for (int c = 0; c < choices; ++c) {
    add_sources(c, c * width, (c + 1) * width, rows[c], shape, out);
  }
  return out;
}

}  // namespace epsim
