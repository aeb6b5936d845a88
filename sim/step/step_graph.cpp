#include "sim/step/step_graph.h"

#include <algorithm>
#include <utility>

namespace epsim {
namespace {

using TaskList = std::vector<TaskId>;

void add_to(TaskList& list, const TaskList& more) { list.insert(list.end(), more.begin(), more.end()); }

void make_unique(TaskList& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Of one batch: what was issued last, by rank or GPU.
struct Issued {
  std::vector<TaskList> rank, gate, experts;  // [rank] what its next stage waits for; gate; experts
  std::vector<TaskList> rows;                 // [GPU] what brings the rows of the exchange at hand
};

class Builder {
 public:
  Builder(const StepModel& model, const StepOrder& order, StepSync sync)
      : model_(model),
        order_(order),
        sync_(sync),
        layers_(model.costs().model().moe_layers()),
        gpus_(model.costs().parallelism().gpus),
        tp_(model.costs().parallelism().attention_tp),
        ranks_(model.costs().parallelism().dp_ranks()) {
    const std::vector<TaskList> by_rank(at(ranks_)), by_gpu(at(gpus_));
    issued_.assign(at(order.batches), {by_rank, by_rank, by_rank, by_gpu});
    awaited_ = by_rank;
    copied_ = early_ = by_gpu;
    stream_.assign(at(gpus_), kNoTask);
    out_.batches = order.batches;
    out_.of_layer.resize(at(order.batches * layers_));
  }

  StepGraph build() {
    for (int l = 0; l < layers_; ++l) {
      for (const Issue& what : order_.layer) {
        issue(what, l + what.layer);
      }
    }
    for (const Issue& what : order_.tail) {
      issue(what, layers_ + what.layer);
    }
    return std::move(out_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void issue(const Issue& what, int l) {
    const bool after_last = what.stages.front() == Stage::kDense || what.stages.front() == Stage::kHead;
    if (l < 0 || (l >= layers_ && !after_last)) {
      return;
    }
    switch (what.stages.front()) {
      case Stage::kDense:
        dense_layers(what.batch, l);
        break;
      case Stage::kDispatch:
      case Stage::kCombine:
        exchange(what, l);
        break;
      case Stage::kFirstExperts:
      case Stage::kExperts:
        experts(what, l);
        break;
      case Stage::kIds:
        ids_ = {everywhere(Stage::kIds, what.batch, l, waits(what, 0, gpus_))};
        break;
      case Stage::kPlan:
        plan_ = {everywhere(Stage::kPlan, what.batch, l, waits(what, 0, gpus_))};
        break;
      case Stage::kCopies:
        copies(what, l);
        break;
      case Stage::kAwait:
        awaited_ = issued_[at(what.batch)].rank;
        break;
      default:
        ranks(what, l);
    }
  }

  // What a stage waits for that runs on these GPUs.
  TaskList waits(const Issue& what, int first_gpu, int gpus) const {
    const Issued& issued = issued_[at(what.batch)];
    TaskList out;
    for (int r = first_gpu / tp_; r <= (first_gpu + gpus - 1) / tp_; ++r) {
      add_to(out, what.after & needs::kOwnRank ? issued.rank[at(r)] : TaskList{});
      add_to(out, what.after & needs::kGates ? issued.gate[at(r)] : TaskList{});
      add_to(out, what.after & needs::kLastExperts ? issued.experts[at(r)] : TaskList{});
    }
    for (int g = first_gpu; g < first_gpu + gpus; ++g) {
      add_to(out, what.after & needs::kRows ? issued.rows[at(g)] : TaskList{});
      add_to(out, what.after & needs::kCopies ? copied_[at(g)] : TaskList{});
      add_to(out, what.after & needs::kEarlyExperts ? early_[at(g)] : TaskList{});
    }
    add_to(out, what.after & needs::kIds ? ids_ : TaskList{});
    add_to(out, what.after & needs::kPlan ? plan_ : TaskList{});
    make_unique(out);
    return out;
  }

  StepTask task(Stage stage, int b, int l, int index) const {
    const int number = stage == Stage::kHead ? -1 : model_.model_layer(l);
    return {stage, static_cast<std::int16_t>(b), l, number, index, 0, -1};
  }

  TaskId add(const StepTask& what, int first_gpu, int gpus, const TaskList& after, int server = -1) {
    const auto lane = static_cast<std::int16_t>(row_of(what.stage).lane);
    const TaskId t = out_.graph.add({first_gpu, gpus, lane, server}, after);
    out_.tasks.push_back(what);
    const bool of_ranks = what.stage <= Stage::kHead && what.stage != Stage::kShared;
    (of_ranks ? out_.of_ranks : out_.of_layer[at(what.batch * layers_ + what.layer)]).push_back(t);
    return t;
  }
  TaskId everywhere(Stage stage, int b, int l, const TaskList& after) {
    return add(task(stage, b, l, 0), 0, gpus_, after);
  }

  // A kernel. Those of a stream run in the order of issue; where there is one batch and nothing runs aside, what they
  // wait for keeps them in order anyway.
  TaskId compute(const StepTask& what, int first_gpu, int gpus, TaskList after) {
    if (order_.streams) {
      add_to(after, awaited_[at(first_gpu / tp_)]);
      make_unique(after);
      for (int g = first_gpu; g < first_gpu + gpus; ++g) {
        const TaskId before = stream_[at(g)];
        if (before != kNoTask && std::find(after.begin(), after.end(), before) == after.end()) {
          after.push_back(before);
        }
      }
    }
    const TaskId t = add(what, first_gpu, gpus, after);
    std::fill_n(stream_.begin() + first_gpu, gpus, t);
    return t;
  }

  // The stages of every rank, one after the other. The head takes all batches together.
  void ranks(const Issue& what, int l) {
    Issued& issued = issued_[at(what.batch)];
    for (int r = 0; r < ranks_; ++r) {
      TaskList last = waits(what, r * tp_, tp_);
      for (std::size_t b = 1; what.stages.front() == Stage::kHead && b < issued_.size(); ++b) {
        add_to(last, issued_[b].rank[at(r)]);
      }
      for (const Stage stage : what.stages) {
        const bool none = stage == Stage::kShared    ? model_.costs().model().shared_intermediate <= 0
                          : stage == Stage::kPredict ? l + 1 >= layers_
                                                     : false;
        if (none) {
          continue;
        }
        last = {compute(task(stage, what.batch, l, r), r * tp_, tp_, last)};
        if (stage == Stage::kGate) {
          issued.gate[at(r)] = last;
        }
        if (!what.aside) {
          issued.rank[at(r)] = last;
        }
      }
    }
  }

  // Those between MoE layer `l` and the one before.
  void dense_layers(int b, int l) {
    const int count = model_.dense_before(l), first = model_.model_layer(l) - count;
    for (int i = 0; i < count; ++i) {
      for (int r = 0; r < ranks_; ++r) {
        for (const Stage stage : {Stage::kAttention, Stage::kDense}) {
          StepTask what = task(stage, b, layers_, r);
          what.model_layer = first + i;
          what.stretch = l;
          TaskList& last = issued_[at(b)].rank[at(r)];
          last = {compute(what, r * tp_, tp_, last)};
        }
      }
    }
  }

  void experts(const Issue& what, int l) {
    for (int r = 0; r < ranks_; ++r) {
      TaskList done;
      for (int g = r * tp_; g < (r + 1) * tp_; ++g) {
        done.push_back(compute(task(what.stages.front(), what.batch, l, g), g, 1, waits(what, g, 1)));
        if (what.stages.front() == Stage::kFirstExperts) {
          early_[at(g)] = {done.back()};
        }
      }
      if (!what.aside) {
        issued_[at(what.batch)].rank[at(r)] = issued_[at(what.batch)].experts[at(r)] = done;
      }
    }
  }

  // On every GPU; those of the layer before go first, as ports are shared.
  void copies(const Issue& what, int l) {
    TaskList after = waits(what, 0, gpus_), all;
    add_to(after, last_copies_);
    for (int g = 0; g < gpus_; ++g) {
      copied_[at(g)] = {add(task(Stage::kCopies, what.batch, l, g), g, 1, after)};
      add_to(all, copied_[at(g)]);
    }
    last_copies_ = {everywhere(Stage::kCopied, what.batch, l, all)};
  }

  void exchange(const Issue& what, int l) {
    Issued& issued = issued_[at(what.batch)];
    const bool dispatch = what.stages.front() == Stage::kDispatch;
    const bool counts = dispatch && order_.counts && model_.costs().dispatch().exchange_counts;
    if (sync_ == StepSync::kPairwise) {
      pairwise(what, l, counts);
      return;
    }
    TaskList after = waits(what, 0, gpus_);
    if (order_.batches > 1) {
      add_to(after, network_);
    }
    if (counts) {
      after = {everywhere(Stage::kCounts, what.batch, l, after)};
    }
    network_ = {everywhere(what.stages.front(), what.batch, l, after)};
    std::vector<TaskList>& done = dispatch ? issued.rows : issued.rank;
    std::fill(done.begin(), done.end(), network_);
  }

  // Serial resources: ports in of GPUs, ports out of ranks, ports in of ranks (for combine).
  void pairwise(const Issue& what, int l, bool counts) {
    Issued& issued = issued_[at(what.batch)];
    const bool dispatch = what.stages.front() == Stage::kDispatch;
    std::vector<TaskList> ready;
    TaskList sends;
    for (int r = 0; r < ranks_; ++r) {
      ready.push_back(waits(what, r * tp_, tp_));
      if (counts) {
        ready.back() = {add(task(Stage::kCounts, what.batch, l, r), r * tp_, tp_, ready.back())};
      }
      const Stage out = dispatch ? Stage::kDispatchOut : Stage::kCombineOut;
      sends.push_back(add(task(out, what.batch, l, r), r * tp_, tp_, ready.back(), gpus_ + r));
    }
    const int unit = dispatch ? 1 : tp_;
    for (int first = 0; first < gpus_; first += unit) {
      TaskList done = sends;
      for (int from = 0; from < ranks_; ++from) {
        TaskList after = ready[at(from)];
        add_to(after, ready[at(first / tp_)]);
        make_unique(after);
        StepTask in = task(dispatch ? Stage::kDispatchIn : Stage::kCombineIn, what.batch, l, first / unit);
        in.from = from;
        done.push_back(add(in, first, unit, after, dispatch ? first : gpus_ + ranks_ + first / tp_));
      }
      (dispatch ? issued.rows[at(first)] : issued.rank[at(first / tp_)]) = std::move(done);
    }
  }

  const StepModel& model_;
  const StepOrder& order_;
  StepSync sync_;
  int layers_, gpus_, tp_, ranks_;
  StepGraph out_;
  std::vector<Issued> issued_;            // [batch]
  std::vector<TaskList> awaited_;         // [rank] combine that the stream has waited for last
  std::vector<TaskList> copied_, early_;  // [GPU] copies for the layer at hand; its first experts
  TaskList ids_, plan_, last_copies_;     // issued last
  TaskList network_;                      // exchange issued last
  TaskList stream_;                       // [GPU] kernel issued last
};

}  // namespace

StepGraph build_step_graph(const StepModel& model, const StepOrder& order, StepSync sync) {
  return Builder(model, order, sync).build();
}

}  // namespace epsim
