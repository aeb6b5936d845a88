// `epsim balance`: how well plans balance, without serving a request.
#include "sim/verbs/balance.h"

#include <iostream>

#include "sim/app/command_line.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {

int balance_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("policies", po::value<std::string>(),
                        "policies to compare, separated by commas; default: the scenario's own");
  add_scenario_options(options);
  add_json_option(options, "copies, KV room and balancedness by policy");
  const auto values = parse_words(
      words,
      "epsim balance SCENARIO.yaml --policies base,eplb,craft [options]\n\n"
      "Plans every policy on the scenario's `plan_loads` and scores the plans on its `loads` (their mean): "
      "balancedness is\n"
      "mean / max GPU load, 1 = perfect. Runs no requests; `epsim compare` shows what balance is worth in time.\n"
      "Policies that act in every step are scored on two drawn steps of full prefill chunks, with predictions as "
      "good as\n"
      "their `accuracy` and `distortion` say; their copies are those brought to one GPU in one layer.\n",
      options, {"scenario"});
  const JsonOutput json(values);
  const Config config = open_scenario(values);
  const Scenario scenario = read_scenario(config, option_list(values, "policies"));
  print_warnings(scenario);
  const std::vector<BalanceRow> rows = balance_of(scenario);
  std::cout << balance_text(scenario, rows);
  json.print(balance_json(scenario, rows));
  return 0;
}

}  // namespace epsim::app
