// `epsim validate`: checks a scenario, down to whether every plan fits into memory, without running it.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/accuracy.h"
#include "sim/app/command_line.h"
#include "sim/app/validate_served.h"
#include "sim/cluster/run_details.h"
#include "sim/cluster/run_policy.h"
#include "sim/cluster/simulate.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {
namespace {

constexpr const char* kFacts = "experiments/validation";

void refuse(const po::variables_map& values, std::initializer_list<const char*> options, const char* why) {
  for (const char* option : options) {
    refuse_if(values.count(option) > 0 && !values[option].defaulted(), option, why);
  }
}

int show_accuracy(const std::string& folder, const JsonOutput& json) {
  const AccuracyTable table = compute_accuracy(folder == kFacts ? own_file(folder) : shipped_file(folder));
  std::cout << accuracy_text(table);
  json.print(accuracy_json(table));
  return table.failures() == 0 ? 0 : 1;
}

int validate_scenario(const po::variables_map& values, const JsonOutput& json) {
  nlohmann::ordered_json result{{"format", 1}};
  const Config config = open_scenario(values);
  const Scenario scenario = read_scenario(config, option_list(values, "policies"));
  print_warnings(scenario);
  const NodeSpec& node = scenario.cluster.node;
  const int gpus = all_gpus(scenario);
  std::cout << fmt::format("{}: {} on {}, {} of each {}; {} from {}\n", scenario.name, scenario.model.name,
                           count_of(gpus, "GPU"), node.gpus, node.name,
                           count_of(scenario.requests.requests.size(), "request"), scenario.requests.source);
  for (const InstancePool& pool : scenario.deployment.pools) {
    std::cout << fmt::format("  {} x {} instance of {} x {} GPUs\n", pool.instances,
                             kInstanceRoleNames[static_cast<std::size_t>(pool.role)], pool.cluster.nodes,
                             pool.cluster.node.gpus);
  }
  result["scenario"] = scenario.name;
  result["gpus"] = all_gpus(scenario);
  result["requests"] = scenario.requests.requests.size();
  for (const PolicyChoice& policy : scenario.policies) {
    const PreparedRun prepared = prepare_run(scenario, policy);
    for (const PreparedInstance& pool : prepared.pools) {
      check_requests(scenario.requests, pool.serving);
    }
    const PreparedInstance& run = prepared.last();
    const std::int64_t state = run.serving.kv_blocks_per_request * run.serving.kv_block_tokens;
    std::cout << fmt::format(
        "  {}: fits; KV pool{} {:.3f} GiB per GPU, {} tokens per DP rank{}, {:.1f} % lost to {}\n", policy.label,
        prepared.pools.size() > 1 ? " of decode instances" : "", to_gib(run.memory.kv_pool),
        grouped(run.serving.kv_blocks * run.serving.kv_block_tokens),
        state > 0
            ? fmt::format(" (of which each request takes {} for windows and linear-attention states)", grouped(state))
            : "",
        run.memory.extras_loss * 100,
        extras_words(extra_experts_item(run) == kUnevenExpertsItem, run.plan.copies() > 0, run.buffers > Bytes(0)));
    result["policies"].push_back({{"policy", policy.label},
                                  {"kv_pool_gib_per_gpu", to_gib(run.memory.kv_pool)},
                                  {"kv_tokens_per_dp_rank", run.serving.kv_blocks * run.serving.kv_block_tokens},
                                  {"kv_tokens_of_each_request_state", state},
                                  {"kv_lost_to_copies_share", run.memory.extras_loss}});
  }
  std::cout << "the scenario is valid\n";
  json.print(result.dump(2) + "\n");
  return 0;
}

}  // namespace

int validate_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_scenario_options(options);
  add_json_option(options, "the KV room by policy; with --accuracy and --served, predicted and measured figures");
  options.add_options()("policies", po::value<std::string>(),
                        "policies to plan, separated by commas; default: the scenario's own");
  options.add_options()("accuracy", po::value<std::string>()->implicit_value(kFacts),
                        "instead of a scenario: compare with what the facts.yaml of this folder says was measured");
  po::options_description served("options of --served");
  add_served_options(served);
  options.add(served);
  const auto values = parse_words(
      words,
      "epsim validate SCENARIO.yaml [options]\n"
      "epsim validate --accuracy[=FOLDER]\n"
      "epsim validate [SCENARIO.yaml] --served TABLE [-o FOLDER]\n\n"
      "Reads the scenario and everything it names, plans every policy and checks that the plans and the longest\n"
      "request fit into memory. Runs nothing and writes nothing. With --accuracy: predicts public measurements; exit\n"
      "code 1 when a row is outside its band. With --served: runs a scenario for each row of a table of served "
      "points,\n"
      "and compares predicted with measured figures. Finished runs are kept: after a kill, rerun the same command to\n"
      "continue.\n",
      options, {"scenario"});
  if (values.count("served") > 0) {
    refuse(values, {"accuracy"}, "--accuracy and --served are two tables; ask for one of them.");
    refuse(values, {"policies"}, "--served runs each point with the policy of its scenario (--set policy=...).");
    return validate_served(values);
  }
  refuse(values, {"layout", "output", "quick", "against"}, "this option is for --served.");
  const JsonOutput json(values);
  if (values.count("accuracy") > 0) {
    refuse(values, {"scenario", "policies", "set", "seed"}, "--accuracy runs scenarios of its own; leave this out.");
    return show_accuracy(values["accuracy"].as<std::string>(), json);
  }
  return validate_scenario(values, json);
}

}  // namespace epsim::app
