#include "sim/step/policy_graph.h"

#include <utility>

namespace epsim {
namespace {

using Kind = StepTask::Kind;

class Builder {
 public:
  Builder(const StepModel& model, const ExecutionProfile& profile)
      : model_(model),
        profile_(profile),
        layers_(model.costs().model().moe_layers()),
        gpus_(model.costs().parallelism().gpus),
        tp_(model.costs().parallelism().attention_tp),
        ranks_(model.costs().parallelism().dp_ranks()),
        has_shared_(model.costs().model().shared_intermediate > 0),
        ready_(static_cast<std::size_t>(ranks_)),
        arrived_(static_cast<std::size_t>(gpus_)) {
    out_.of_layer.resize(static_cast<std::size_t>(layers_));
  }

  StepGraph build() {
    for (int l = 0; l < layers_; ++l) {
      layer(l);
    }
    dense_layers(layers_);
    for (int r = 0; r < ranks_; ++r) {
      rank_task(Kind::kHead, LayerPart::kOther, r, layers_, -1);
    }
    return std::move(out_);
  }

 private:
  using TaskList = std::vector<TaskId>;
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  TaskId add(Kind kind, LayerPart part, StepLane lane, int l, int first_gpu, int gpus, int index,
             const TaskList& after) {
    const int number = l < layers_ ? model_.model_layer(l) : -1;
    const TaskId t = out_.graph.add({first_gpu, gpus, static_cast<std::int16_t>(lane), -1}, after);
    out_.tasks.push_back({kind, part, lane, 0, l, number, index, 0});
    (kind <= Kind::kHead ? out_.of_ranks : out_.of_layer[at(l)]).push_back(t);
    return t;
  }
  TaskId everywhere(Kind kind, LayerPart part, StepLane lane, int l, const TaskList& after) {
    return add(kind, part, lane, l, 0, gpus_, 0, after);
  }
  void rank_task(Kind kind, LayerPart part, int r, int l, int number) {
    const TaskId t = add(kind, part, StepLane::kCompute, l, r * tp_, tp_, r, ready_[at(r)]);
    out_.tasks.back().model_layer = number;
    ready_[at(r)] = {t};
  }

  void dense_layers(int l) {
    const int count = model_.dense_before(l), first = model_.model_layer(l) - count;
    for (int i = 0; i < count; ++i) {
      for (int r = 0; r < ranks_; ++r) {
        rank_task(Kind::kAttention, LayerPart::kAttention, r, layers_, first + i);
        out_.tasks.back().stretch = l;
        rank_task(Kind::kDense, LayerPart::kDense, r, layers_, first + i);
        out_.tasks.back().stretch = l;
      }
    }
  }

  // Attention to gate; returns the gates. Libra's ranks also run the next layer's gate.
  TaskList ranks(int l) {
    dense_layers(l);
    TaskList gates;
    for (int r = 0; r < ranks_; ++r) {
      rank_task(Kind::kAttention, LayerPart::kAttention, r, l, model_.model_layer(l));
      rank_task(Kind::kGate, LayerPart::kGate, r, l, model_.model_layer(l));
      gates.push_back(ready_[at(r)].front());
      if (profile_.predicts_on_gpu && l + 1 < layers_) {
        rank_task(Kind::kPredict, LayerPart::kPrefetch, r, l, model_.model_layer(l));
      }
    }
    return gates;
  }

  TaskList all_ranks() const {
    TaskList all;
    for (const TaskList& list : ready_) {
      all.insert(all.end(), list.begin(), list.end());
    }
    return all;
  }

  // Copies for layer `l`, on every GPU, from `after` on; those of the layer before go first, as ports are shared.
  void copies(int l, TaskId after) {
    TaskList waits{after};
    if (copied_ != kNoTask) {
      waits.push_back(copied_);
    }
    TaskList all;
    for (int g = 0; g < gpus_; ++g) {
      all.push_back(add(Kind::kCopy, LayerPart::kPrefetch, StepLane::kCopy, l, g, 1, g, waits));
      arrived_[at(g)] = {all.back()};
    }
    copied_ = everywhere(Kind::kCopied, LayerPart::kPrefetch, StepLane::kCpu, l, all);
  }

  void layer(int l) {
    const TaskList gates = ranks(l);
    const TaskId ids = everywhere(Kind::kIds, LayerPart::kPlanning, StepLane::kNetwork, l, all_ranks());
    const TaskId plan = everywhere(Kind::kPlan, LayerPart::kPlanning, StepLane::kCpu, l, {ids});
    TaskList dispatched = profile_.two_stage || !profile_.plans_before_dispatch ? gates : TaskList{plan};
    if (profile_.dispatch == ExecutionProfile::Dispatch::kAllToAll && model_.costs().dispatch().exchange_counts) {
      dispatched = {everywhere(Kind::kCounts, LayerPart::kDispatch, StepLane::kNetwork, l, dispatched)};
    }
    dispatched = {everywhere(Kind::kDispatch, LayerPart::kDispatch, StepLane::kNetwork, l, dispatched)};
    if (profile_.copies_on_demand) {
      copies(l, plan);
    }
    experts(l, dispatched.front(), plan);
    if (!profile_.copies_on_demand && l + 1 < layers_) {
      copies(l + 1, plan);
    }
    shared(l);
    const TaskId combine = everywhere(Kind::kCombine, LayerPart::kCombine, StepLane::kNetwork, l, all_ranks());
    for (TaskList& list : ready_) {
      list = {combine};
    }
  }

  // Both stages of every GPU. ready_ holds what its rank did last.
  void experts(int l, TaskId dispatched, TaskId plan) {
    for (int r = 0; r < ranks_; ++r) {
      TaskList done;
      for (int g = r * tp_; g < (r + 1) * tp_; ++g) {
        TaskList first = ready_[at(r)], then;
        if (profile_.two_stage) {  // local tokens wait for prefetched experts alone
          first.insert(first.end(), arrived_[at(g)].begin(), arrived_[at(g)].end());
          then = {dispatched, plan};
        } else if (profile_.copies_on_demand) {
          first.push_back(dispatched);
          then = arrived_[at(g)];
        } else {
          first.push_back(dispatched);
          first.insert(first.end(), arrived_[at(g)].begin(), arrived_[at(g)].end());
        }
        const TaskId early = add(Kind::kFirstExperts, LayerPart::kExperts, StepLane::kCompute, l, g, 1, g, first);
        then.push_back(early);
        done.push_back(add(Kind::kExperts, LayerPart::kExperts, StepLane::kCompute, l, g, 1, g, then));
      }
      ready_[at(r)] = done;
    }
  }

  void shared(int l) {
    for (int r = 0; has_shared_ && r < ranks_; ++r) {
      rank_task(Kind::kShared, LayerPart::kDense, r, l, model_.model_layer(l));
    }
  }

  const StepModel& model_;
  ExecutionProfile profile_;
  int layers_, gpus_, tp_, ranks_;
  bool has_shared_;
  StepGraph out_;
  std::vector<TaskList> ready_;    // [rank] what the rank's next piece waits for
  std::vector<TaskList> arrived_;  // [GPU] copies for the layer at hand
  TaskId copied_ = kNoTask;        // all of them
};

}  // namespace

StepGraph build_policy_graph(const StepModel& model, const ExecutionProfile& profile) {
  return Builder(model, profile).build();
}

}  // namespace epsim
