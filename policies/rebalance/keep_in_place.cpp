#include "policies/rebalance/keep_in_place.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "sim/core/check.h"

namespace epsim {
namespace {

using Experts = std::vector<int>;

// Slots of one GPU: experts, and their copy ranks when the plan has them.
struct GpuSlots {
  Experts experts, ranks;
};

GpuSlots slots_of(const LayerPlan& layer, std::size_t gpu) {
  const int from = layer.first_slot[gpu], to = layer.first_slot[gpu + 1];
  GpuSlots out{.experts = {layer.slots.begin() + from, layer.slots.begin() + to}, .ranks = {}};
  if (!layer.copy_rank.empty()) {
    out.ranks.assign(layer.copy_rank.begin() + from, layer.copy_rank.begin() + to);
  }
  return out;
}

// The experts, each once.
Experts distinct(Experts experts) {
  std::sort(experts.begin(), experts.end());
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  return experts;
}

// How many experts need not travel; both each once.
int common(const Experts& next, const Experts& before) {
  Experts both;
  std::set_intersection(next.begin(), next.end(), before.begin(), before.end(), std::back_inserter(both));
  return static_cast<int>(both.size());
}

// Old slots in order take the first new copy of their expert; what is left fills the open slots in order.
GpuSlots keep_slots(const GpuSlots& next, const Experts& before) {
  const std::size_t n = next.experts.size();
  std::vector<std::size_t> source(n, n);  // [slot] position in `next`, n = open
  std::vector<bool> used(n, false);
  for (std::size_t slot = 0; slot < n; ++slot) {
    for (std::size_t i = 0; i < n && source[slot] == n; ++i) {
      if (!used[i] && next.experts[i] == before[slot]) {
        source[slot] = i;
        used[i] = true;
      }
    }
  }
  std::size_t left = 0;
  GpuSlots out;
  for (std::size_t slot = 0; slot < n; ++slot) {
    if (source[slot] == n) {
      while (used[left]) {
        ++left;
      }
      source[slot] = left++;
    }
    out.experts.push_back(next.experts[source[slot]]);
    if (!next.ranks.empty()) {
      out.ranks.push_back(next.ranks[source[slot]]);
    }
  }
  return out;
}

// The assignment problem in O(n^3) (Kuhn 1955 in the shortest-path form of Jonker and Volgenant 1987). Rows are assigned
// one after another, each by the cheapest chain of reassignments. Index 0 stands for "no row" and "no column", so that
// rows and columns count from 1. cost = -gain; row_price + column_price <= cost throughout.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<int>>& gain)
      : gain_(gain), row_price_(gain.size() + 1, 0), column_price_(gain.size() + 1, 0), row_of_(gain.size() + 1, 0) {}

  void assign(std::size_t row) {
    row_of_[0] = row;
    slack_.assign(row_of_.size(), kInfinity);
    from_.assign(row_of_.size(), 0);
    reached_.assign(row_of_.size(), false);
    std::size_t column = 0;
    while (row_of_[column] != 0) {
      column = extend(column);
    }
    while (column != 0) {  // hand the columns along the chain over
      row_of_[column] = row_of_[from_[column]];
      column = from_[column];
    }
  }

  std::vector<int> columns() const {
    std::vector<int> out(gain_.size());
    for (std::size_t column = 1; column < row_of_.size(); ++column) {
      out[row_of_[column] - 1] = static_cast<int>(column) - 1;
    }
    return out;
  }

 private:
  static constexpr long kInfinity = std::numeric_limits<long>::max();

  // Marks `column` as reached and returns the cheapest column not yet reached.
  std::size_t extend(std::size_t column) {
    reached_[column] = true;
    const std::size_t row = row_of_[column];
    long step = kInfinity;
    std::size_t next = 0;
    for (std::size_t j = 1; j < row_of_.size(); ++j) {
      if (reached_[j]) {
        continue;
      }
      const long reduced = -static_cast<long>(gain_[row - 1][j - 1]) - row_price_[row] - column_price_[j];
      if (reduced < slack_[j]) {
        slack_[j] = reduced;
        from_[j] = column;
      }
      if (slack_[j] < step) {
        step = slack_[j];
        next = j;
      }
    }
    for (std::size_t j = 0; j < row_of_.size(); ++j) {
      if (reached_[j]) {
        row_price_[row_of_[j]] += step;
        column_price_[j] -= step;
      } else if (slack_[j] != kInfinity) {
        slack_[j] -= step;
      }
    }
    return next;
  }

  const std::vector<std::vector<int>>& gain_;
  std::vector<long> row_price_, column_price_, slack_;
  std::vector<std::size_t> row_of_, from_;
  std::vector<bool> reached_;
};

// gain[row][column], square. The column of each row, all different, with the largest sum of gains. Integer arithmetic and
// a fixed order make the result reproducible.
std::vector<int> best_assignment(const std::vector<std::vector<int>>& gain) {
  Assignment problem(gain);
  for (std::size_t row = 1; row <= gain.size(); ++row) {
    problem.assign(row);
  }
  return problem.columns();
}

// names[g] = the new plan's GPU that GPU g becomes. A swap must not change how many slots a GPU has, nor, where
// `per_node` is given, leave the node; a gain below any sum of others forbids it.
std::vector<int> best_names(const LayerPlan& next, const LayerPlan& before, int per_node) {
  const auto gpus = static_cast<std::size_t>(next.gpus());
  const int forbidden = -static_cast<int>(next.slots.size()) - 1;
  std::vector<std::vector<int>> gain(gpus, std::vector<int>(gpus, forbidden));
  for (std::size_t g = 0; g < gpus; ++g) {
    const Experts held = distinct(slots_of(before, g).experts);
    const int room = next.first_slot[g + 1] - next.first_slot[g];
    for (std::size_t h = 0; h < gpus; ++h) {
      const bool same_node =
          per_node == 0 || g / static_cast<std::size_t>(per_node) == h / static_cast<std::size_t>(per_node);
      if (same_node && next.first_slot[h + 1] - next.first_slot[h] == room) {
        gain[g][h] = common(distinct(slots_of(next, h).experts), held);
      }
    }
  }
  return best_assignment(gain);
}

LayerPlan keep_layer(const LayerPlan& next, const LayerPlan& before, int gpus_per_node, Keep how) {
  std::vector<int> names(static_cast<std::size_t>(next.gpus()));
  if (how == Keep::kSlots) {
    for (std::size_t g = 0; g < names.size(); ++g) {
      names[g] = static_cast<int>(g);
    }
  } else {
    names = best_names(next, before, how == Keep::kGpusInNode ? gpus_per_node : 0);
  }
  LayerPlan out{.slots = {}, .first_slot = next.first_slot, .copy_rank = {}};
  for (std::size_t g = 0; g < names.size(); ++g) {
    GpuSlots slots = slots_of(next, static_cast<std::size_t>(names[g]));
    const Experts held = slots_of(before, g).experts;
    if (held.size() == slots.experts.size()) {
      slots = keep_slots(slots, held);
    }
    out.slots.insert(out.slots.end(), slots.experts.begin(), slots.experts.end());
    out.copy_rank.insert(out.copy_rank.end(), slots.ranks.begin(), slots.ranks.end());
  }
  return out;
}

void check_same(const PlacementPlan& next, const PlacementPlan& previous) {
  EPSIM_CHECK(
      next.gpus == previous.gpus && next.experts == previous.experts && next.layers.size() == previous.layers.size(),
      "both plans are for one model on the same GPUs");
}

}  // namespace

PlacementPlan keep_in_place(const PlacementPlan& next, const PlacementPlan& previous, int gpus_per_node, Keep how) {
  check_same(next, previous);
  PlacementPlan out{.policy = next.policy, .experts = next.experts, .gpus = next.gpus, .layers = {}};
  for (std::size_t l = 0; l < next.layers.size(); ++l) {
    out.layers.push_back(keep_layer(next.layers[l], previous.layers[l], gpus_per_node, how));
  }
  return out;
}

int moved_copies(const PlacementPlan& next, const PlacementPlan& previous) {
  check_same(next, previous);
  int moved = 0;
  for (std::size_t l = 0; l < next.layers.size(); ++l) {
    for (std::size_t g = 0; g < static_cast<std::size_t>(next.gpus); ++g) {
      const Experts now = distinct(slots_of(next.layers[l], g).experts);
      moved += static_cast<int>(std::ssize(now)) - common(now, distinct(slots_of(previous.layers[l], g).experts));
    }
  }
  return moved;
}

}  // namespace epsim
