#include "sim/study/capacity_scenario.h"

#include <fmt/format.h>

#include "sim/scenario/new_scenario.h"

namespace epsim {

Config capacity_scenario(const CapacityQuestion& question, const std::vector<CapacityPool>& pools) {
  const CapacityDesign &first = pools.front().design, &last = pools.back().design;
  const bool apart = pools.size() > 1;
  NewScenario wanted{first.engine, question.model, first.node, first.dtype, first.nodes};
  wanted.gpus_per_node = first.part() ? first.gpus : 0;
  if (apart) {
    wanted.prefill = first.nodes;
    wanted.decode = last.nodes;
  }
  Config config = Config::from_text(scenario_document(wanted), "");
  config.set(fmt::format("parallelism={{attention_tp: {}}}", first.attention_tp));
  config.set("policy=" + first.policy);
  for (const auto* settings : {&question.settings, &first.settings}) {
    config.set(*settings);
  }
  if (apart) {
    config.set(fmt::format("deployment.prefill.instances={}", pools.front().instances));
    config.set(fmt::format("deployment.decode.instances={}", pools.back().instances));
    config.set(fmt::format("deployment.decode.attention_tp={}", last.attention_tp));
  } else if (pools.front().instances > 1) {
    config.set(fmt::format("deployment={{instances: {}}}", pools.front().instances));
  }
  return config;
}

std::string refusal(const InputError& error) {
  return error.place.key.empty() ? error.problem : fmt::format("`{}`: {}", error.place.key, error.problem);
}

}  // namespace epsim
