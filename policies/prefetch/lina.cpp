#include "policies/prefetch/lina.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

LinaTable::LinaTable(int layers, int experts, int top_k, int path_length)
    : layers_(layers),
      experts_(experts),
      top_k_(top_k),
      path_length_(path_length),
      by_path_(static_cast<std::size_t>(layers)),
      average_(static_cast<std::size_t>(layers), Counts(static_cast<std::size_t>(experts) + 1, 0)) {
  std::uint64_t paths = 1;
  for (int i = 0; i < path_length; ++i) {
    EPSIM_CHECK(paths <= UINT64_MAX / static_cast<std::uint64_t>(experts), "a path fits into 64 bits");
    paths *= static_cast<std::uint64_t>(experts);
  }
}

std::uint64_t LinaTable::path_of(int layer, std::span<const std::int16_t> experts) const {
  std::uint64_t key = 0;
  for (int before = std::max(0, layer - path_length_); before < layer; ++before) {
    const std::int16_t first = experts[static_cast<std::size_t>(before) * static_cast<std::size_t>(top_k_)];
    key = key * static_cast<std::uint64_t>(experts_) + static_cast<std::uint64_t>(first);
  }
  return key;
}

void LinaTable::add(std::span<const std::int16_t> experts) {
  EPSIM_CHECK(experts.size() == static_cast<std::size_t>(layers_) * static_cast<std::size_t>(top_k_),
              "a token has top_k experts in every layer");
  for (int l = 0; l < layers_; ++l) {
    const auto at = static_cast<std::size_t>(l);
    Counts& path = by_path_[at][path_of(l, experts)];
    path.resize(static_cast<std::size_t>(experts_) + 1, 0);
    for (Counts* counts : {&path, &average_[at]}) {
      ++counts->back();
      for (int slot = 0; slot < top_k_; ++slot) {
        ++(*counts)[static_cast<std::size_t>(
            experts[at * static_cast<std::size_t>(top_k_) + static_cast<std::size_t>(slot)])];
      }
    }
  }
}

const LinaTable::Counts* LinaTable::find(int layer, std::span<const std::int16_t> experts) const {
  const auto& paths = by_path_[static_cast<std::size_t>(layer)];
  const auto found = paths.find(path_of(layer, experts));
  return found == paths.end() ? nullptr : &found->second;
}

bool LinaTable::known(int layer, std::span<const std::int16_t> experts) const {
  return find(layer, experts) != nullptr;
}

std::vector<double> LinaTable::expect(int layer, std::span<const std::int16_t> experts) const {
  const Counts* seen = find(layer, experts);
  const Counts& counts = seen != nullptr ? *seen : average_[static_cast<std::size_t>(layer)];
  EPSIM_CHECK(counts.back() > 0, "the table was trained");
  std::vector<double> out(static_cast<std::size_t>(experts_));
  for (std::size_t e = 0; e < out.size(); ++e) {
    out[e] = static_cast<double>(counts[e]) / counts.back();
  }
  return out;
}

Residency lina_replicate(std::span<const double> popularity, const Residency& home, int n_extra) {
  Residency out = home;
  std::vector<int> copies(popularity.size(), 1);
  std::vector<int> room(static_cast<std::size_t>(home.gpus), n_extra);
  const auto load_of = [&](int gpu) {
    double load = 0;
    for (int e = 0; e < out.experts(); ++e) {
      load += out.holds(e, gpu) ? popularity[static_cast<std::size_t>(e)] / copies[static_cast<std::size_t>(e)] : 0.0;
    }
    return load;
  };
  std::vector<int> open(popularity.size());  // experts that may still find a GPU
  for (std::size_t e = 0; e < open.size(); ++e) {
    open[e] = static_cast<int>(e);
  }
  while (!open.empty()) {
    const auto hottest = std::max_element(open.begin(), open.end(), [&](int a, int b) {
      const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
      return popularity[x] / copies[x] < popularity[y] / copies[y];
    });
    int target = -1;
    double lightest = 0;
    for (int g = 0; g < home.gpus; ++g) {
      if (room[static_cast<std::size_t>(g)] > 0 && !out.holds(*hottest, g)) {
        const double load = load_of(g);
        if (target < 0 || load < lightest) {
          target = g;
          lightest = load;
        }
      }
    }
    if (target < 0) {
      open.erase(hottest);
      continue;
    }
    out.add(*hottest, target);
    ++copies[static_cast<std::size_t>(*hottest)];
    --room[static_cast<std::size_t>(target)];
  }
  return out;
}

}  // namespace epsim
