// What the host does in a step that no CUDA graph replays: it launches every kernel, one after another.
//
//   Models : launches run ahead of the GPU, so that a step takes what the GPU needs or what the launches take, whichever
//            is longer. Where the host has to learn how many rows will come before it can go on (DeepEP's normal
//            kernels, NCCL with an exchange of counts) the queue runs dry once a layer, and the GPU waits for one
//            launch.
//   Ignores: the host's work once a step (metadata of attention, sampling; `step_gap` declares it), launches that
//            depend on the batch.
//   Source : kernels of DeepSeek's attention, gate and shared experts: SGLang's models/deepseek_v2.py of June 2025
//            (absorbed MLA, with the concatenations of its Triton backend). Those inside grouped experts, exchanges and
//            GQA: one for each operation that the implementations are made of, not counted in a trace. The cost of a
//            launch: `serving.launch_time`.
#pragma once

#include "models/step/layer_costs.h"
#include "sim/core/units.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"

namespace epsim {

struct EagerWork {
  int launches = 0;
  int waits = 0;  // for the GPU

  // What the step takes longer than the `gpu` time of its kernels.
  Seconds host_wait(Seconds gpu, Seconds launch) const;
};

constexpr EagerWork operator+(const EagerWork& a, const EagerWork& b) {
  return {a.launches + b.launches, a.waits + b.waits};
}
constexpr EagerWork operator*(int times, const EagerWork& work) { return {times * work.launches, times * work.waits}; }

// Of a step that runs as one batch. Each half of one that runs as two has as many launches of its own.
EagerWork eager_work(const MoeSpec& model, const Parallelism& parallelism, const DispatchOptions& dispatch);

}  // namespace epsim
