// `epsim screen`: does a plan made from one window of loads still balance another, and what does it cost in KV cache?
// A screening, not a measurement: no request is served and nothing is priced.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>

#include "sim/app/command_line.h"
#include "sim/serving/run_policy.h"
#include "sim/serving/step_screen.h"

namespace epsim::app {
namespace {

struct Score {
  double mean = 0, worst = 1;
  int worst_layer = 0;  // MoE layer
};

Score score(const Placement& placement, const LoadWindow& window) {
  const std::vector<double> by_layer = balancedness_by_layer(placement, window);
  const auto worst = std::min_element(by_layer.begin(), by_layer.end());
  return {std::accumulate(by_layer.begin(), by_layer.end(), 0.0) / static_cast<double>(by_layer.size()), *worst,
          static_cast<int>(worst - by_layer.begin())};
}

std::string line(const Scenario& s, const std::string& label, const std::string& copies, const MemoryBreakdown& memory,
                 const std::string& planned, const Score& scored) {
  return fmt::format("{:<16} {:>8} {:>9.3f} {:>8.1f} {:>9} {:>8.3f} {:>8.3f} {:>7}\n", label, copies,
                     to_gib(memory.kv_pool), memory.copies_loss * 100, planned, scored.mean, scored.worst,
                     s.model.moe_layer_numbers()[static_cast<std::size_t>(scored.worst_layer)]);
}

std::string placement_row(const Scenario& s, const PolicyChoice& policy) {
  const PreparedRun run = prepare_run(s, policy);
  LoadWindow even(s.run_window.layers(), s.run_window.experts());
  for (int l = 0; l < even.layers(); ++l) {
    std::fill(even.layer(l).begin(), even.layer(l).end(), 1.0);
  }
  const Score planned = score(run.placement, planning_window(s, policy));
  return line(s, policy.label, fmt::format("{}", std::max(0, run.plan.copies_on_fullest_gpu())), run.memory,
              fmt::format("{:.3f}", planned.mean), score(run.placement, policy.perfect_balance ? even : s.run_window));
}

// A per-step policy plans nothing ahead; what it brings to a GPU in a layer stands in the column of copies.
std::string step_row(const Scenario& s, const PolicyChoice& policy) {
  const StepScore steps = screen_steps(s, policy);
  MemoryOptions options = s.memory;
  options.resident_extra = buffer_bytes(s, *policy.per_step, steps.most_extra);
  const std::vector<std::int64_t> resident(
      static_cast<std::size_t>(s.cluster.gpus()),
      static_cast<std::int64_t>(s.model.moe_layers()) * s.model.experts / s.cluster.gpus());
  MemoryBreakdown memory = memory_breakdown(s.model, s.cluster, s.parallelism, options, resident);
  const Bytes without = memory_breakdown(s.model, s.cluster, s.parallelism, s.memory, resident).kv_pool;
  memory.copies_loss = 1.0 - memory.kv_pool / without;  // here: what the buffers take
  return line(s, policy.label, fmt::format("{}/step", steps.most_extra), memory, "-",
              {steps.mean, steps.worst, steps.worst_layer});
}

}  // namespace

int screen_verb(const std::vector<std::string>& words) {
  boost::program_options::options_description options("options");
  options.add_options()("policies", boost::program_options::value<std::string>()->default_value(""),
                        "policies to screen, separated by commas; default: the scenario's own");
  add_scenario_options(options);
  const auto values = parse_words(
      words,
      "epsim screen SCENARIO.yaml --policies base,eplb,craft [options]\n\n"
      "Plans every policy on the scenario's `plan_loads` and scores the plans on its `loads` (their mean): "
      "balancedness is\n"
      "mean / max GPU load, 1 = perfect. Serves no request; `epsim compare` tells what balance is worth in time.\n"
      "Policies that act in every step are screened on two drawn steps of full prefill chunks, with predictions as "
      "good as\n"
      "their `accuracy` and `distortion` say; their copies are those brought to one GPU in one layer.\n",
      options, {"scenario"});
  if (!values) {
    return 0;
  }
  const Config config = open_scenario(*values);
  const Scenario scenario = read_scenario(config, split_list((*values)["policies"].as<std::string>()));
  std::cout << fmt::format("{}: {} on {} GPUs\n", scenario.name, scenario.model.name, scenario.cluster.gpus())
            << "                   copies   KV pool     lost   balancedness: mean / max GPU load\n"
               "policy              /GPU   GiB/GPU        %   planned   scored    worst   layer\n";
  for (const PolicyChoice& policy : scenario.policies) {
    std::cout << (policy.per_step != nullptr ? step_row(scenario, policy) : placement_row(scenario, policy));
  }
  return 0;
}

}  // namespace epsim::app
