#include "sim/verbs/launch/capacity_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "policies/plan_formats.h"
#include "policies/registry.h"
#include "sim/core/text.h"
#include "sim/scheduler/engines.h"
#include "sim/study/capacity_scenario.h"
#include "sim/verbs/launch/engine_launch.h"

namespace epsim {
namespace {

// Of the demand's longest request, in whole 1024s as models' own contexts are; a rank's KV pool must hold it.
std::int64_t context_of(const PlannedPool& planned) {
  constexpr std::int64_t kUnit = 1024;
  return std::min((planned.longest_request + kUnit - 1) / kUnit * kUnit, planned.kv_tokens_of_rank);
}

// "SGLang v0.5.9": what its summary begins with.
std::string_view release_of(std::string_view engine) {
  const std::string_view summary = find_engine(engine_version(engine)).summary;
  return summary.substr(0, summary.find(':'));
}

ExpertFile expert_file(const PlannedPool& planned, const CapacityDesign& design) {
  ExpertFile out;
  if (design.policy == experts_in_order().name || planned.model.dense()) {
    return out;
  }
  const EngineLaunch& launch = launch_of(design.engine);
  try {
    out.text = export_plan(planned.plan, {planned.model.moe_layer_numbers(), planned.model.layers},
                           std::string(launch.engine));
    out.name = fmt::format("experts-{}.{}", role_name(design), launch.plan_ending);
    out.copies = static_cast<int>(planned.plan.layers.front().slots.size()) - planned.plan.experts;
  } catch (const InputError& e) {
    out.refused = e.what();
  }
  return out;
}

GivenKnobs knobs_of(const CapacityQuestion& question, const CapacityPool& pool) {
  const std::vector<CapacityPool> pools(pool.design.role == InstanceRole::kWhole ? 1 : 2, pool);
  auto given = capacity_scenario(question, pools).root().section("serving").rest();
  std::erase_if(given, [](const auto& knob) { return knob.first == "engine"; });
  return GivenKnobs(std::move(given));
}

// The command with its port; once for each instance where they share a host.
std::string on_a_host(const LaunchedPool& pool, const std::string& command) {
  const EngineLaunch& launch = launch_of(pool.design.engine);
  if (pool.hosts.beside == 1) {
    return fmt::format("{} --port {}", command, launch.first_port);
  }
  return fmt::format(
      "for SLOT in $(seq 0 {0}); do\n  export CUDA_VISIBLE_DEVICES=$(seq -s , $((SLOT * {1})) $((SLOT * {1} + {2})))\n"
      "  {3} --port $(({4} + SLOT{5})) &\ndone\nwait",
      pool.hosts.beside - 1, pool.design.gpus, pool.design.gpus - 1, command, launch.first_port,
      launch.port_step > 1 ? fmt::format(" * {}", launch.port_step) : "");
}

bool one_job(const LaunchedPool& pool) { return pool.hosts.each > 1 && launch_of(pool.design.engine).by_mpi; }

// What the engine cannot do as the run had it.
std::string notes_of(const CapacityQuestion& question, const LaunchedPool& pool, const GivenKnobs& left) {
  std::string out;
  if (pool.hosts.each > pool.design.nodes) {
    out += fmt::format("# Each instance: {} hosts with {} GPUs.\n", pool.hosts.each, pool.hosts.gpus);
  }
  if (one_job(pool)) {
    out +=
        "# Once for each instance, from one of its hosts and a folder that all of them see: one MPI job (mpirun where "
        "there is no Slurm).\n";
  }
  out += launch_of(pool.design.engine).notes(pool);
  if (!pool.experts.refused.empty()) {
    out += fmt::format("# Experts start in order: {}\n", pool.experts.refused);
  }
  const auto without_flag = [&](const std::string& setting) {
    out += "# The runs had " + setting + "; the command below has no flag for it.\n";
  };
  for (const auto* settings : {&question.settings, &pool.design.settings}) {
    for (const std::string& setting : *settings) {
      const auto starts = [&](std::string_view section) { return setting.starts_with(section); };
      if (!starts("requests") && !starts("loads") && !starts("plan_loads") && !starts("policies") &&
          !starts("serving") && !starts("deployment.router") && !starts("model.kv_dtype")) {
        without_flag(setting);
      }
    }
  }
  for (const auto& [knob, value] : left.left()) {
    without_flag(fmt::format("serving.{}={}", knob, value));
  }
  return out;
}

// One pool as a LeaderWorkerSet (leaderworkerset.x-k8s.io/v1): a replica is an instance, its size the hosts.
std::string worker_set(const LaunchedPool& pool, const std::string& command) {
  return fmt::format(
      "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata:\n  name: {}\nspec:\n  replicas: {}\n"
      "  leaderWorkerTemplate:\n    size: {}\n    workerTemplate:\n      spec:\n        containers:\n"
      "          - name: engine\n            image: IMAGE  # of {}\n            env: [{{name: MODEL, value: MODEL}}]\n"
      "            command: [sh, -c]\n            args:\n              - |\n"
      "                export NODE_RANK=$LWS_WORKER_INDEX LEADER=$LWS_LEADER_ADDRESS\n                {}\n"
      "            resources: {{limits: {{nvidia.com/gpu: {}}}}}\n---\n",
      role_name(pool.design), pool.instances, pool.hosts.each, engine_version(pool.design.engine),
      replaced(fmt::format("{} --port {}", command, launch_of(pool.design.engine).first_port), "\n",
               "\n                "),
      pool.hosts.gpus);
}

std::vector<LaunchedPool> launched(const CapacityOption& option, const std::vector<PlannedPool>& plans) {
  std::vector<LaunchedPool> out;
  for (std::size_t i = 0; i < option.pools.size(); ++i) {
    const CapacityPool& pool = option.pools[i];
    out.push_back({pool.design, plans[i], pool.instances + option.spare, context_of(plans[i]),
                   expert_file(plans[i], pool.design)});
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_files(const CapacityQuestion& question,
                                                              const CapacityOption& option) {
  const CapacityDesign& first = option.pools.front().design;
  std::string script = fmt::format(
      "#!/bin/sh\n# {} for {}. MODEL: a checkpoint with {} weights. On each host of an instance: NODE_RANK from 0, "
      "LEADER the\n"
      "# address of its first host. Flags that are not named have the defaults of {}, as in the runs but for what is\n"
      "# noted; other releases may have others.\n",
      engine_version(first.engine), question.model, first.dtype, release_of(first.engine));
  bool all_sets = true;
  std::string sets = "# An example: image, volumes and network are yours.\n";
  std::vector<std::pair<std::string, std::string>> out;
  const std::vector<PlannedPool> plans = plans_of(question, option);
  const std::vector<LaunchedPool> pools = launched(option, plans);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const LaunchedPool& pool = pools[i];
    GivenKnobs knobs = knobs_of(question, option.pools[i]);
    const std::string command = launch_of(pool.design.engine).command(pool, knobs);
    script += fmt::format("\n# instances ({}) x nodes: {} x {}{}\n{}{}\n", role_name(pool.design), pool.instances,
                          pool.design.size, pool.hosts.beside > 1 ? "; on each host:" : "",
                          notes_of(question, pool, knobs), on_a_host(pool, command));
    sets += one_job(pool) ? "" : worker_set(pool, command);
    all_sets = all_sets && !one_job(pool);
    if (!pool.experts.name.empty()) {
      out.emplace_back(pool.experts.name, pool.experts.text);
    }
  }
  script += "\n" + launch_of(first.engine).router(pools);
  out.emplace_back("launch.sh", script);
  if (all_sets) {  // Kubernetes' MPI Operator starts MPI jobs
    out.emplace_back("leaderworkerset.yaml", sets);
  }
  return out;
}

}  // namespace epsim
