#include "models/network/varying_shares.h"

#include <algorithm>
#include <map>
#include <utility>

namespace epsim {

namespace {

// Builds the sources of a layer one after another.
class Arranger {
 public:
  Arranger(const LayerPlacement& layer, const ClusterShape& shape) : layer_(layer), shape_(shape) {
    for (std::size_t g = 0; g + 1 < layer.first_slot.size(); ++g) {
      gpu_of_.resize(static_cast<std::size_t>(layer.first_slot[g + 1]), static_cast<std::int32_t>(g));
    }
    find_common();
  }
  VaryingShares run() {
    const int width = layer_.by_source.gpus_per_source;
    for (int first = 0, source = 0; first < shape_.gpus; first += width, ++source) {
      const std::vector<std::uint32_t> cells = cells_of(static_cast<std::size_t>(source));
      const int last = first + width;
      for (int from = first; from < last;) {  // node by node
        const int to = std::min(last, (shape_.node_of(from) + 1) * shape_.gpus_per_node);
        add(from, to, cells);
        from = to;
      }
    }
    return std::move(out_);
  }

 private:
  using Contents = std::vector<std::pair<std::size_t, float>>;  // (slot, share)

  std::size_t slots() const { return layer_.expert.size(); }
  float share(std::size_t source, std::size_t slot) const { return layer_.by_source.share[source * slots() + slot]; }

  void find_common() {
    const std::vector<float>& all = layer_.by_source.share;
    varies_.assign(slots(), false);
    for (std::size_t i = slots(); i < all.size(); ++i) {
      varies_[i % slots()] = varies_[i % slots()] || all[i] != all[i % slots()];
    }
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (!varies_[slot]) {
        out_.common_slot.push_back(static_cast<std::int32_t>(slot));
        out_.common_gpu.push_back(gpu_of_[slot]);
      }
    }
  }
  // The cells of a source, in order of GPUs; new ones are made as needed.
  std::vector<std::uint32_t> cells_of(std::size_t source) {
    std::vector<std::uint32_t> cells;
    Contents contents;
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (varies_[slot] && share(source, slot) > 0) {
        contents.emplace_back(slot, share(source, slot));
      }
      const bool gpu_ends = slot + 1 == slots() || gpu_of_[slot + 1] != gpu_of_[slot];
      if (gpu_ends && !contents.empty()) {
        cells.push_back(cell(contents));
        contents.clear();
      }
    }
    return cells;
  }
  std::uint32_t cell(const Contents& contents) {
    const auto [at, is_new] = known_.emplace(contents, static_cast<std::uint32_t>(out_.cells.size()));
    if (is_new) {
      const auto first = static_cast<std::uint32_t>(out_.entries.size());
      for (const auto& [slot, part] : contents) {
        out_.entries.push_back({layer_.expert[slot], static_cast<std::int32_t>(slot), part});
      }
      out_.cells.push_back({gpu_of_[contents[0].first], first, static_cast<std::uint32_t>(out_.entries.size())});
    }
    return at->second;
  }
  // GPUs [from, to), all of one node.
  void add(int from, int to, const std::vector<std::uint32_t>& cells) {
    const int node = shape_.node_of(from);
    VaryingShares::Source source{from, to, static_cast<std::uint32_t>(out_.cells_of.size()), 0, 0};
    for (const bool near : {true, false}) {
      for (const std::uint32_t c : cells) {
        if ((shape_.node_of(out_.cells[c].gpu) == node) == near) {
          out_.cells_of.push_back(c);
        }
      }
      (near ? source.far : source.end) = static_cast<std::uint32_t>(out_.cells_of.size());
    }
    out_.sources.push_back(source);
  }

  const LayerPlacement& layer_;
  const ClusterShape& shape_;
  std::vector<std::int32_t> gpu_of_;  // [slot]
  std::vector<bool> varies_;          // [slot]
  std::map<Contents, std::uint32_t> known_;
  VaryingShares out_;
};

}  // namespace

VaryingShares varying_shares(const LayerPlacement& layer, const ClusterShape& shape) {
  return layer.by_source.empty() ? VaryingShares() : Arranger(layer, shape).run();
}

}  // namespace epsim
