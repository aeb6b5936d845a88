#include "sim/step/step_graph.h"

#include <algorithm>
#include <utility>

namespace epsim {
namespace {

using Kind = StepTask::Kind;

class Builder {
 public:
  Builder(const StepModel& model, StepSync sync, StepOverlap overlap, bool decode)
      : model_(model),
        sync_(sync),
        overlap_(overlap),
        staged_(decode && overlap == StepOverlap::kTwoBatch),
        layers_(model.costs().model().moe_layers()),
        gpus_(model.costs().parallelism().gpus),
        tp_(model.costs().parallelism().attention_tp),
        ranks_(model.costs().parallelism().dp_ranks()),
        has_shared_(model.costs().model().shared_intermediate > 0),
        stream_(static_cast<std::size_t>(gpus_), kNoTask),
        awaited_(static_cast<std::size_t>(ranks_)) {
    out_.batches = overlap == StepOverlap::kTwoBatch ? 2 : 1;
    out_.of_layer.resize(static_cast<std::size_t>(out_.batches * layers_));
    needs_.assign(static_cast<std::size_t>(out_.batches), std::vector<TaskList>(static_cast<std::size_t>(ranks_)));
    gated_ = experts_ = needs_;
    received_.assign(static_cast<std::size_t>(out_.batches), std::vector<TaskList>(static_cast<std::size_t>(gpus_)));
  }

  StepGraph build() {
    // Half B runs two stages behind half A.
    for (int i = 0; staged_ && i < layers_ * kStages + 2; ++i) {
      if (i < layers_ * kStages) {
        stage(0, i / kStages, i % kStages);
      }
      if (i >= 2) {
        stage(1, (i - 2) / kStages, (i - 2) % kStages);
      }
    }
    for (int l = 0; !staged_ && l < layers_; ++l) {
      if (overlap_ == StepOverlap::kTwoBatch) {
        two_batches(l);
      } else {
        one_batch(l);
      }
    }
    tail();
    return std::move(out_);
  }

 private:
  static constexpr int kStages = 5;
  using TaskList = std::vector<TaskId>;
  using ByRank = std::vector<TaskList>;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  ByRank& needs(int b) { return needs_[at(b)]; }

  void one_batch(int l) {
    rank_work(0, l);
    exchange(0, l, LayerPart::kDispatch);
    if (overlap_ == StepOverlap::kSharedExpert) {
      const ByRank dispatched = needs(0);
      shared(0, l, gated_[0]);
      needs(0) = dispatched;
      experts(0, l);
    } else {
      experts(0, l);
      shared(0, l, needs(0));
    }
    exchange(0, l, LayerPart::kCombine);
  }

  void two_batches(int l) {
    for (int b = 0; b < 2; ++b) {
      if (l > 0) {
        const ByRank combined = needs(b);
        shared(b, l - 1, experts_[at(b)]);
        needs(b) = combined;  // the stream keeps shared experts ahead of attention
      }
      rank_work(b, l);
      exchange(b, l, LayerPart::kDispatch);
    }
    for (int b = 0; b < 2; ++b) {
      experts(b, l);
      exchange(b, l, LayerPart::kCombine);
    }
  }

  // One stage of a half's layer, as its kernels stand in the stream.
  void stage(int b, int l, int number) {
    const auto batch = static_cast<std::int16_t>(b);
    const auto each_rank = [&](Kind kind, LayerPart part) {
      for (int r = 0; r < ranks_; ++r) {
        rank_task(b, r, {kind, part, StepLane::kCompute, batch, l, model_layer(l), r, 0});
      }
    };
    switch (number) {
      case 0:
        dense_layers(b, l);
        each_rank(Kind::kPrepare, LayerPart::kAttention);
        break;
      case 1:
        each_rank(Kind::kScores, LayerPart::kAttention);
        each_rank(Kind::kGate, LayerPart::kGate);
        gated_[at(b)] = needs(b);
        break;
      case 2: {
        exchange(b, l, LayerPart::kDispatch);
        const ByRank dispatched = needs(b);
        shared(b, l, gated_[at(b)]);
        needs(b) = dispatched;
        break;
      }
      case 3:
        experts(b, l);
        exchange(b, l, LayerPart::kCombine);
        break;
      default:  // the stream stands still until the combine has come in
        for (int r = 0; r < ranks_; ++r) {
          awaited_[at(r)] = needs(b)[at(r)];
        }
    }
  }

  // What stands after the last MoE layer; the head takes all batches together.
  void tail() {
    for (int b = 0; b < out_.batches; ++b) {
      if (overlap_ == StepOverlap::kTwoBatch && !staged_) {
        const ByRank combined = needs(b);
        shared(b, layers_ - 1, experts_[at(b)]);
        join(needs(b), combined);
      }
      dense_layers(b, layers_);
    }
    for (int b = 1; b < out_.batches; ++b) {
      join(needs(0), needs(b));
    }
    for (int r = 0; r < ranks_; ++r) {
      rank_task(0, r, {Kind::kHead, LayerPart::kOther, StepLane::kCompute, 0, layers_, -1, r, 0});
    }
  }

  static void join(ByRank& into, const ByRank& other) {
    for (std::size_t r = 0; r < into.size(); ++r) {
      into[r].insert(into[r].end(), other[r].begin(), other[r].end());
    }
  }

  int model_layer(int l) const { return model_.model_layer(l); }

  // Kernels of a stream run in the order of issue; without overlap what they wait for keeps them in order anyway.
  TaskId compute(const StepTask& what, int first_gpu, int gpus, TaskList after) {
    if (overlap_ != StepOverlap::kNone) {
      const TaskList& awaited = awaited_[at(first_gpu / tp_)];
      after.insert(after.end(), awaited.begin(), awaited.end());
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      for (int g = first_gpu; g < first_gpu + gpus; ++g) {
        const TaskId before = stream_[at(g)];
        if (before != kNoTask && std::find(after.begin(), after.end(), before) == after.end()) {
          after.push_back(before);
        }
      }
    }
    const TaskId t = add(what, {first_gpu, gpus, static_cast<std::int16_t>(StepLane::kCompute), -1}, after);
    std::fill_n(stream_.begin() + first_gpu, gpus, t);
    return t;
  }

  TaskId add(const StepTask& what, const Task& task, const TaskList& after) {
    const TaskId t = out_.graph.add(task, after);
    out_.tasks.push_back(what);
    const bool of_ranks = what.kind <= Kind::kHead;
    (of_ranks ? out_.of_ranks : out_.of_layer[at(what.batch * layers_ + what.layer)]).push_back(t);
    return t;
  }

  void rank_task(int b, int r, const StepTask& what) {
    needs(b)[at(r)] = {compute(what, r * tp_, tp_, needs(b)[at(r)])};
  }

  void dense_layers(int b, int l) {
    const int count = model_.dense_before(l), first = model_layer(l) - count;
    StepTask what{.batch = static_cast<std::int16_t>(b), .layer = layers_, .stretch = l};
    for (int i = 0; i < count; ++i) {
      what.model_layer = first + i;
      for (int r = 0; r < ranks_; ++r) {
        what.index = r;
        what.kind = Kind::kAttention;
        what.part = LayerPart::kAttention;
        rank_task(b, r, what);
        what.kind = Kind::kDense;
        what.part = LayerPart::kDense;
        rank_task(b, r, what);
      }
    }
  }

  void rank_work(int b, int l) {
    dense_layers(b, l);
    const auto batch = static_cast<std::int16_t>(b);
    for (int r = 0; r < ranks_; ++r) {
      rank_task(b, r, {Kind::kAttention, LayerPart::kAttention, StepLane::kCompute, batch, l, model_layer(l), r, 0});
      rank_task(b, r, {Kind::kGate, LayerPart::kGate, StepLane::kCompute, batch, l, model_layer(l), r, 0});
    }
    gated_[at(b)] = needs(b);
  }

  void experts(int b, int l) {
    const auto batch = static_cast<std::int16_t>(b);
    for (int r = 0; r < ranks_; ++r) {
      TaskList done;
      for (int g = r * tp_; g < (r + 1) * tp_; ++g) {
        const StepTask what{Kind::kExperts, LayerPart::kExperts, StepLane::kCompute, batch, l, model_layer(l), g, 0};
        done.push_back(compute(what, g, 1, sync_ == StepSync::kPairwise ? received_[at(b)][at(g)] : needs(b)[at(r)]));
      }
      needs(b)[at(r)] = done;
    }
    experts_[at(b)] = needs(b);
  }

  void shared(int b, int l, const ByRank& after) {
    needs(b) = after;
    for (int r = 0; has_shared_ && r < ranks_; ++r) {
      rank_task(b, r,
                {Kind::kShared, LayerPart::kDense, StepLane::kCompute, static_cast<std::int16_t>(b), l, model_layer(l),
                 r, 0});
    }
  }

  void exchange(int b, int l, LayerPart part) {
    if (sync_ == StepSync::kPairwise) {
      pairwise(b, l, part);
      return;
    }
    TaskList after;
    for (const TaskList& list : needs(b)) {
      after.insert(after.end(), list.begin(), list.end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (network_ != kNoTask && overlap_ == StepOverlap::kTwoBatch) {
      after.push_back(network_);
    }
    const auto network = [&](Kind kind) {
      network_ = add({kind, part, StepLane::kNetwork, static_cast<std::int16_t>(b), l, model_layer(l), 0, 0},
                     {0, gpus_, static_cast<std::int16_t>(StepLane::kNetwork), -1}, after);
      after = {network_};
    };
    const bool dispatch = part == LayerPart::kDispatch;
    if (dispatch && model_.costs().dispatch().exchange_counts) {
      network(Kind::kCounts);
    }
    network(dispatch ? Kind::kDispatch : Kind::kCombine);
    for (TaskList& list : needs(b)) {
      list = {network_};
    }
  }

  // Serial resources: ports in of GPUs, ports out of ranks, ports in of ranks (for combine).
  void pairwise(int b, int l, LayerPart part) {
    const bool forth = part == LayerPart::kDispatch;
    const auto network = static_cast<std::int16_t>(StepLane::kNetwork);
    ByRank ready = needs(b);
    StepTask what{Kind::kCounts, part, StepLane::kNetwork, static_cast<std::int16_t>(b), l, model_layer(l), 0, 0};
    TaskList sends;
    for (int r = 0; r < ranks_; ++r) {
      TaskList& after = ready[at(r)];
      what.index = r;
      if (forth && model_.costs().dispatch().exchange_counts) {
        what.kind = Kind::kCounts;
        after = {add(what, {r * tp_, tp_, network, -1}, after)};
      }
      what.kind = forth ? Kind::kDispatchOut : Kind::kCombineOut;
      sends.push_back(add(what, {r * tp_, tp_, network, gpus_ + r}, after));
    }
    what.kind = forth ? Kind::kDispatchIn : Kind::kCombineIn;
    const int unit = forth ? 1 : tp_;
    for (int first = 0; first < gpus_; first += unit) {
      TaskList done = sends;
      for (int from = 0; from < ranks_; ++from) {
        TaskList after = ready[at(from)];
        const TaskList& own = ready[at(first / tp_)];
        after.insert(after.end(), own.begin(), own.end());
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        what.index = first / unit;
        what.from = from;
        done.push_back(add(what, {first, unit, network, forth ? first : gpus_ + ranks_ + first / tp_}, after));
      }
      received_[at(b)][at(first)] = std::move(done);
    }
    for (int r = 0; r < ranks_ && !forth; ++r) {
      needs(b)[at(r)] = received_[at(b)][at(r * tp_)];
    }
  }

  const StepModel& model_;
  StepSync sync_;
  StepOverlap overlap_;
  bool staged_;  // in the five stages of decode
  int layers_, gpus_, tp_, ranks_;
  bool has_shared_;
  StepGraph out_;
  std::vector<ByRank> needs_;                    // [batch][rank] what the rank's next piece waits for
  std::vector<ByRank> gated_, experts_;          // [batch][rank] gate and experts of the layer at hand
  std::vector<std::vector<TaskList>> received_;  // [batch][GPU] pairwise: what brings the rows of the exchange at hand
  TaskList stream_;                              // [GPU] kernel issued last
  ByRank awaited_;                               // [rank] combine that the stream has waited for last
  TaskId network_ = kNoTask;                     // exchange issued last
};

}  // namespace

std::vector<LaneSlowdown> slowdowns_of_kernels(const ExecutionOptions& options) {
  const auto compute = static_cast<std::int16_t>(StepLane::kCompute);
  return {{compute, static_cast<std::int16_t>(StepLane::kNetwork), 1.0 - options.exchange_sm_share},
          {compute, static_cast<std::int16_t>(StepLane::kCopy), options.speed_beside_copies}};
}

StepGraph build_step_graph(const StepModel& model, StepSync sync, StepOverlap overlap, bool decode) {
  return Builder(model, sync, overlap, decode).build();
}

}  // namespace epsim
