// A scenario: everything a run depends on. read_scenario.h reads it from one YAML document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "models/memory/memory_model.h"
#include "models/network/joint_use.h"
#include "models/step/step_model.h"
#include "policies/placement_policy.h"
#include "policies/registry.h"
#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/domain/request_trace.h"
#include "sim/domain/step_loads.h"
#include "sim/scenario/deployment_options.h"
#include "sim/scenario/execution_options.h"
#include "sim/scenario/faults.h"
#include "sim/scenario/protocol.h"
#include "sim/scenario/rebalance_options.h"
#include "sim/scenario/step_policy_run.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

struct Scenario;

// One policy of a comparison, under the label that reports use.
struct PolicyChoice {
  std::string label;
  std::string planned_by = {};  // the label or policy that says what `placement` does
  std::shared_ptr<const PlacementPolicy> placement = nullptr;
  Ceiling ceiling = Ceiling::kNone;
  // A policy that acts in every step, over experts where `placement` has them; null for placement policies.
  std::shared_ptr<const StepPolicy> per_step = nullptr;
  StepPolicyRun step_run = {};                                    // of such a policy
  std::shared_ptr<const ReplicaChoice> replica_choice = nullptr;  // null: copies share evenly
  std::shared_ptr<const RebalanceOptions> rebalance = nullptr;    // null: the first plan stays
  // Where the label has sections of its own (`dispatch`, `execution`, ...): the scenario with these; null: as it is.
  std::shared_ptr<const Scenario> system = nullptr;
  // Policies of the instances that prefill and of those that decode, where the label names one for each.
  std::shared_ptr<const PolicyChoice> prefill = nullptr, decode = nullptr;
  std::string overrides = {};  // of `system`, for reports: "dispatch.dedup=node, serving.engine=vllm"
  bool copies_take_kv = true;  // false: to see what their KV room costs, as if copies and buffers took none
  bool uses_steps = false;     // PlacementPolicyEntry::uses_steps
};

struct Scenario {
  std::string name;
  Seed seed{};
  MoeSpec model;
  ClusterSpec cluster;
  Parallelism parallelism;
  MemoryOptions memory;
  DispatchOptions dispatch;
  ServingOptions serving;
  ExecutionOptions execution;
  std::vector<Fault> faults;
  DeploymentOptions deployment;
  ComputeProfile compute;
  NetworkProfile network;
  RequestTrace requests;
  // Where requests are generated: as many as asked for, by the same rule. The first ones are those of `requests`. Safe
  // to call from several threads. Empty for recordings.
  std::function<RequestTrace(std::size_t)> make_requests;
  // The same at `pace` times the rate, where the requests of a conversation keep their distance: sessions alone.
  std::function<RequestTrace(std::size_t, double pace)> make_paced;
  LoadWindow plan_window;                                  // what policies plan from
  LoadWindow run_window;                                   // the mean of what the run is scored on
  std::shared_ptr<const ExpertLoadSource> loads;           // what the run is scored on
  std::shared_ptr<const ExpertLoadSource> balanced_loads;  // for Ceiling::kPerfectBalance
  std::vector<PolicyChoice> policies;
  Protocol protocol;
  std::vector<std::string> warnings;  // settings that the engine would refuse or change (engine_warnings)
  std::vector<std::filesystem::path> input_files;
  std::string resolved;  // the document with overrides and defaults filled in, as YAML
};

// What the policy runs on: the scenario, or that of its label's own sections.
inline const Scenario& system_of(const Scenario& scenario, const PolicyChoice& policy) {
  return policy.system != nullptr ? *policy.system : scenario;
}

// The pools of the deployment; of one instance, that which the scenario's own sections describe.
std::vector<InstancePool> pools_of(const Scenario& scenario);

// What tells which experts a run uses together: some tokens of its own loads, else of those that it was planned from, else
// the groups that the model's routing is limited to.
UsedTogether used_together(const Scenario& scenario);

// GPUs of all instances.
int all_gpus(const Scenario& scenario);

}  // namespace epsim
