// How a scenario spreads routed experts: over all GPUs of an instance, or over EP ranks of several GPUs.
//
//   parallelism: {ep_size: 4}     or in a pool of the deployment: EP ranks of an instance; default: one per GPU
//
//   Models : SGLang's hybrid of expert and tensor parallelism (PR 8590; server_args.py, parallel_state.py): ep_size
//            divides the GPUs, and consecutive ones, moe_tp_size = GPUs / ep_size, split each expert of their rank by
//            columns. Every token goes to every GPU, and outputs are added up on the way back; ep_size 1 is plain
//            tensor parallelism of the experts.
//   Refuses: other transports than the all-gather (with DeepEP SGLang sets ep_size to the number of GPUs itself);
//            engines that know only all or nothing, as SGLang 0.4.8 (enable_ep_moe) and vLLM (enable_expert_parallel).
#pragma once

#include <string>

#include "sim/core/config.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Reads the key `ep_size` into `parallelism`, whose `gpus` are set. Without the key an EP rank keeps to
// `moe_tp` GPUs.
void read_ep_size(ConfigReader& in, const Key& ep_size, int moe_tp, Parallelism& parallelism);

// Parallelism::validate(), with errors at the keys of `in`.
void check_parallelism(const ConfigReader& in, const Parallelism& parallelism, const MoeSpec& model,
                       const ClusterSpec& cluster);

// Whether the engine and the transport have such a layout; `in` is where its ep_size stands. Throws InputError.
void check_ep_size(const ConfigReader& in, const Parallelism& parallelism, const ServingOptions& serving,
                   const DispatchOptions& dispatch);

// A DP rank over several nodes is priced with two all-reduces a layer over all GPUs.
void check_rank_over_nodes(const ConfigReader& in, const ClusterSpec& cluster, const Parallelism& parallelism,
                           const DispatchOptions& dispatch);

// Whether the model's experts fill the EP ranks of every instance, be it with a policy's `num_redundant_experts`: 256
// and 32 on 72. Throws InputError.
void check_slots(ConfigReader root, ConfigReader policy, const Scenario& scenario);

}  // namespace epsim
