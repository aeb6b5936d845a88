#include "policies/rebalance/migration.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {
namespace {

// Experts of each GPU in one layer of the old plan.
class Residents {
 public:
  Residents(const LayerPlan& layer, int experts) : experts_(experts) {
    count_.assign(static_cast<std::size_t>(layer.gpus()) * static_cast<std::size_t>(experts), 0);
    for (int g = 0; g < layer.gpus(); ++g) {
      const auto at = static_cast<std::size_t>(g);
      for (int s = layer.first_slot[at]; s < layer.first_slot[at + 1]; ++s) {
        ++count(g, layer.slots[static_cast<std::size_t>(s)]);
      }
    }
  }
  int& count(int gpu, int expert) { return count_[cell(gpu, expert)]; }
  int count(int gpu, int expert) const { return count_[cell(gpu, expert)]; }

 private:
  std::size_t cell(int gpu, int expert) const {
    return static_cast<std::size_t>(gpu) * static_cast<std::size_t>(experts_) + static_cast<std::size_t>(expert);
  }
  int experts_;
  std::vector<int> count_;  // [GPU][expert]
};

// Chooses senders, and remembers how much each has sent.
class Senders {
 public:
  explicit Senders(const ClusterShape& shape) : shape_(shape), sent_(static_cast<std::size_t>(shape.gpus), 0) {}

  int choose(const Residents& held, int expert, int to) {
    int best = -1;
    for (int g = 0; g < shape_.gpus; ++g) {
      if (held.count(g, expert) > 0 && (best < 0 || better(g, best, to))) {
        best = g;
      }
    }
    EPSIM_CHECK(best >= 0, "every expert has a copy in the plan in place");
    ++sent_[static_cast<std::size_t>(best)];
    return best;
  }

 private:
  bool better(int g, int than, int to) const {
    const bool near = shape_.node_of(g) == shape_.node_of(to), other = shape_.node_of(than) == shape_.node_of(to);
    return near != other ? near : sent_[static_cast<std::size_t>(g)] < sent_[static_cast<std::size_t>(than)];
  }

  ClusterShape shape_;
  std::vector<int> sent_;  // [GPU] copies
};

void add_layer_moves(const LayerPlan& next, const LayerPlan& previous, int experts, int layer, Senders& senders,
                     std::vector<CopyMove>& out) {
  const Residents held(previous, experts);
  Residents staying = held, there = held;  // `there`: with what has arrived
  for (int g = 0; g < next.gpus(); ++g) {
    const auto at = static_cast<std::size_t>(g);
    for (int s = next.first_slot[at]; s < next.first_slot[at + 1]; ++s) {
      const int expert = next.slots[static_cast<std::size_t>(s)];
      int& stays = staying.count(g, expert);
      if (stays > 0) {
        --stays;
      } else {
        out.push_back({layer, expert, there.count(g, expert) > 0 ? g : senders.choose(held, expert, g), g, s});
        ++there.count(g, expert);
      }
    }
  }
}

// Fills batches first-fit under the limit of copies that a GPU sends and receives.
class Batches {
 public:
  Batches(int gpus, int limit) : gpus_(static_cast<std::size_t>(gpus)), limit_(limit) {}

  // In the first batch from `earliest` on that has room.
  int add(const CopyMove& move, int earliest) {
    auto batch = static_cast<std::size_t>(earliest);
    while (batch < batches_.size() && !room(batch, move)) {
      ++batch;
    }
    if (batch == batches_.size()) {
      batches_.emplace_back();
      sent_.resize(sent_.size() + gpus_, 0);
      received_.resize(received_.size() + gpus_, 0);
    }
    batches_[batch].push_back(move);
    if (move.from_gpu != move.to_gpu) {
      ++sent_[batch * gpus_ + static_cast<std::size_t>(move.from_gpu)];
      ++received_[batch * gpus_ + static_cast<std::size_t>(move.to_gpu)];
    }
    return static_cast<int>(batch);
  }
  std::vector<std::vector<CopyMove>> take() { return std::move(batches_); }

 private:
  bool room(std::size_t batch, const CopyMove& move) const {
    return move.from_gpu == move.to_gpu || (sent_[batch * gpus_ + static_cast<std::size_t>(move.from_gpu)] < limit_ &&
                                            received_[batch * gpus_ + static_cast<std::size_t>(move.to_gpu)] < limit_);
  }

  std::size_t gpus_;
  int limit_;
  std::vector<std::vector<CopyMove>> batches_;
  std::vector<int> sent_, received_;  // [batch][GPU]
};

int staged_on_fullest(const MigrationPlan& plan, int gpus) {
  std::vector<int> staged(static_cast<std::size_t>(gpus), 0);
  int most = 0;
  for (std::size_t b = 0; b < plan.batches.size(); ++b) {
    for (const CopyMove& move : plan.batches[b]) {
      most = std::max(most, ++staged[static_cast<std::size_t>(move.to_gpu)]);
    }
    for (std::size_t earlier = 0; earlier <= b; ++earlier) {  // layers that switch now take their copies out
      for (const CopyMove& move : plan.batches[earlier]) {
        if (plan.switches_after[static_cast<std::size_t>(move.layer)] == static_cast<int>(b)) {
          --staged[static_cast<std::size_t>(move.to_gpu)];
        }
      }
    }
  }
  return most;
}

}  // namespace

MigrationPlan plan_migration(const PlacementPlan& next, const PlacementPlan& previous, const ClusterShape& shape,
                             int limit_per_gpu) {
  EPSIM_CHECK(next.gpus == previous.gpus && next.gpus == shape.gpus && next.experts == previous.experts &&
                  next.layers.size() == previous.layers.size(),
              "both plans are for one model on the same GPUs");
  EPSIM_CHECK(limit_per_gpu >= 1, "a batch moves something");
  std::vector<CopyMove> moves;
  Senders senders(shape);
  for (std::size_t l = 0; l < next.layers.size(); ++l) {
    add_layer_moves(next.layers[l], previous.layers[l], next.experts, static_cast<int>(l), senders, moves);
  }
  MigrationPlan out{.batches = {}, .switches_after = {}, .staged_on_fullest_gpu = 0};
  out.switches_after.assign(next.layers.size(), -1);
  Batches batches(shape.gpus, limit_per_gpu);
  for (const CopyMove& move : moves) {
    int& last = out.switches_after[static_cast<std::size_t>(move.layer)];
    last = std::max(last, batches.add(move, move.from_gpu == move.to_gpu ? std::max(last, 0) : 0));
  }
  out.batches = batches.take();
  out.staged_on_fullest_gpu = staged_on_fullest(out, shape.gpus);
  return out;
}

MigrationBytes migration_bytes(std::span<const CopyMove> moves, Bytes expert_bytes, const ClusterShape& shape) {
  const std::vector<Bytes> zero(static_cast<std::size_t>(shape.gpus), Bytes(0));
  MigrationBytes out{zero, zero, zero, zero};
  for (const CopyMove& move : moves) {
    if (move.from_gpu == move.to_gpu) {
      continue;
    }
    const bool near = shape.node_of(move.from_gpu) == shape.node_of(move.to_gpu);
    (near ? out.intra_out : out.inter_out)[static_cast<std::size_t>(move.from_gpu)] += expert_bytes;
    (near ? out.intra_in : out.inter_in)[static_cast<std::size_t>(move.to_gpu)] += expert_bytes;
  }
  return out;
}

}  // namespace epsim
