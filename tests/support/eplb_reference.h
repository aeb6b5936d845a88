// deepseek-ai/EPLB once more, straight from its description and without regard to speed: what eplb_fuzz_test.cpp and
// plan_fuzz_test.cpp compare against. Shares no code with policies/.
//   Source: eplb.py at commit d52c72d: greedy packs of equal size, one copy at a time to the largest load per copy, all
//           in float32; hierarchical if and only if the groups divide over the nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace epsim::test {

struct EplbReference {
  using Ints = std::vector<int>;
  // Of one layer.
  Ints phy2log, rank;         // [slot]
  std::vector<Ints> log2phy;  // [expert][copy]
  Ints logcnt;                // [expert]
};

struct EplbReferenceShape {
  int physical = 0, groups = 1, nodes = 1, gpus = 1;
};

// Loads per copy in Real, pack loads in Sum: the original has float32 in both; SGLang sums in double, vLLM divides and
// sums in double.
template <class Real = float, class Sum = float>
class EplbReferenceLayer {
 public:
  EplbReferenceLayer() = default;
  EplbReferenceLayer(std::vector<float> loads, EplbReferenceShape shape, bool stable)
      : loads_(std::move(loads)), shape_(shape), stable_(stable) {
    if (shape_.groups % shape_.nodes != 0) {
      shape_.groups = shape_.nodes = 1;
    }
  }

  EplbReference plan() const {
    const int experts = static_cast<int>(loads_.size());
    EplbReference out;
    out.logcnt.assign(loads_.size(), 0);
    out.log2phy.resize(loads_.size());
    const std::vector<int> order = by_node();
    const int experts_here = experts / shape_.nodes, gpus_here = shape_.gpus / shape_.nodes;
    for (int node = 0; node < shape_.nodes; ++node) {
      const std::vector<int> own(order.begin() + node * experts_here, order.begin() + (node + 1) * experts_here);
      fill_node(own, shape_.physical / shape_.nodes, gpus_here, out);
    }
    for (std::size_t slot = 0; slot < out.phy2log.size(); ++slot) {
      const auto e = static_cast<std::size_t>(out.phy2log[slot]);
      out.log2phy[e].resize(static_cast<std::size_t>(out.logcnt[e]), -1);
      out.log2phy[e][static_cast<std::size_t>(out.rank[slot])] = static_cast<int>(slot);
    }
    return out;
  }

 private:
  // For every item its pack and its place in it.
  struct Packed {
    std::vector<int> pack, place;
  };
  template <class Weight>
  Packed pack(const std::vector<Weight>& weights, int packs) const {
    const int items = static_cast<int>(weights.size());
    Packed out{std::vector<int>(weights.size()), std::vector<int>(weights.size(), 0)};
    if (items == packs) {
      std::iota(out.pack.begin(), out.pack.end(), 0);
      return out;
    }
    std::vector<int> order(weights.size());
    std::iota(order.begin(), order.end(), 0);
    const auto heavier = [&](int a, int b) {
      return weights[static_cast<std::size_t>(a)] > weights[static_cast<std::size_t>(b)];
    };
    if (stable_) {
      std::stable_sort(order.begin(), order.end(), heavier);
    } else {
      std::sort(order.begin(), order.end(), heavier);
    }
    std::vector<Sum> sum(static_cast<std::size_t>(packs), Sum{0});
    std::vector<int> count(static_cast<std::size_t>(packs), 0);
    for (const int item : order) {
      int best = -1;
      for (int p = 0; p < packs; ++p) {
        const bool room = count[static_cast<std::size_t>(p)] < items / packs;
        if (room && (best < 0 || sum[static_cast<std::size_t>(p)] < sum[static_cast<std::size_t>(best)])) {
          best = p;
        }
      }
      out.pack[static_cast<std::size_t>(item)] = best;
      out.place[static_cast<std::size_t>(item)] = count[static_cast<std::size_t>(best)]++;
      sum[static_cast<std::size_t>(best)] += static_cast<Sum>(weights[static_cast<std::size_t>(item)]);
    }
    return out;
  }

  // Experts in the order of the nodes that take their groups.
  std::vector<int> by_node() const {
    const int size = static_cast<int>(loads_.size()) / shape_.groups;
    std::vector<float> group(static_cast<std::size_t>(shape_.groups));
    for (int g = 0; g < shape_.groups; ++g) {
      double sum = 0;  // exact below 2^53, rounded once: the original's own order of summation is not specified
      for (int i = 0; i < size; ++i) {
        sum += static_cast<double>(loads_[static_cast<std::size_t>(g * size + i)]);
      }
      group[static_cast<std::size_t>(g)] = static_cast<float>(sum);
    }
    const Packed packed = pack(group, shape_.nodes);
    std::vector<int> out(loads_.size());
    for (int g = 0; g < shape_.groups; ++g) {
      const auto at = static_cast<std::size_t>(g);
      const int position = packed.pack[at] * (shape_.groups / shape_.nodes) + packed.place[at];
      for (int i = 0; i < size; ++i) {
        out[static_cast<std::size_t>(position * size + i)] = g * size + i;
      }
    }
    return out;
  }

  void fill_node(const std::vector<int>& own, int physical, int gpus, EplbReference& out) const {
    std::vector<int> expert(own.size()), copy(own.size(), 0), copies(own.size(), 1);
    std::iota(expert.begin(), expert.end(), 0);
    const auto share = [&](int e) {
      const auto at = static_cast<std::size_t>(e);
      return static_cast<Real>(loads_[static_cast<std::size_t>(own[at])]) / static_cast<Real>(copies[at]);
    };
    while (static_cast<int>(expert.size()) < physical) {
      int best = 0;
      for (int e = 1; e < static_cast<int>(own.size()); ++e) {
        best = share(e) > share(best) ? e : best;
      }
      expert.push_back(best);
      copy.push_back(copies[static_cast<std::size_t>(best)]++);
    }
    std::vector<Real> weights;
    for (const int e : expert) {
      weights.push_back(share(e));
    }
    const Packed packed = pack(weights, gpus);
    const std::size_t base = out.phy2log.size();
    out.phy2log.resize(base + expert.size());
    out.rank.resize(base + expert.size());
    for (std::size_t p = 0; p < expert.size(); ++p) {
      const auto slot = base + static_cast<std::size_t>(packed.pack[p] * (physical / gpus) + packed.place[p]);
      const int e = own[static_cast<std::size_t>(expert[p])];
      out.phy2log[slot] = e;
      out.rank[slot] = copy[p];
      ++out.logcnt[static_cast<std::size_t>(e)];
    }
  }

  std::vector<float> loads_;
  EplbReferenceShape shape_;
  bool stable_ = true;
};

// Random shapes that eplb.py accepts, and loads of every awkward kind. `draw(n)` gives 0 .. n - 1.
struct EplbCase {
  EplbReferenceShape shape;
  std::vector<std::vector<double>> weights;  // [layer][expert]
};
template <class Draw>
EplbCase random_eplb_case(Draw draw) {
  EplbCase out;
  out.shape.nodes = 1 + draw(4);
  out.shape.gpus = out.shape.nodes * (1 + draw(4));
  out.shape.groups = 1 + draw(9);
  const int experts = out.shape.groups * (1 + draw(12));
  // The fewest physical experts that divide over the GPUs, and some more; in hierarchical mode each node gets its
  // share.
  const int least = (experts + out.shape.gpus - 1) / out.shape.gpus * out.shape.gpus;
  out.shape.physical = least + out.shape.gpus * draw(4);
  for (int l = 1 + draw(3); l > 0; --l) {
    std::vector<double> row(static_cast<std::size_t>(experts));
    const int kind = draw(9), hot = draw(experts);
    for (int e = 0; e < experts; ++e) {
      double& w = row[static_cast<std::size_t>(e)];
      switch (kind) {
        case 0:
          w = 0;
          break;  // nothing
        case 1:
          w = e == hot ? 5000 : 0;
          break;  // one hot
        case 2:
          w = 7;
          break;  // all equal
        case 3:
          w = draw(4) * 10;
          break;  // ties and zeros
        case 4:
          w = draw(1000);
          break;  // plain counts
        case 5:
          w = draw(2) == 0 ? 0 : draw(1 << 20);
          break;  // sparse
        case 6:
          w = (draw(1 << 15) * 32768.0 + draw(1 << 15)) * 4096;
          break;  // beyond what float32 holds exactly
        case 7:
          w = draw(100000) / 99991.0;
          break;  // fractions
        default:
          w = draw(3) == 0 ? 1e30 : 1e-30 * draw(5);
          break;  // 60 orders of magnitude apart
      }
    }
    out.weights.push_back(std::move(row));
  }
  return out;
}

}  // namespace epsim::test
