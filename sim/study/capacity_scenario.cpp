#include "sim/study/capacity_scenario.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/scenario/read_scenario.h"
#include "sim/scheduler/engines.h"
#include "sim/study/load_point.h"

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
  if (first.ep_size > 0) {
    config.set(fmt::format("parallelism.ep_size={}", first.ep_size));
  }
  config.set("policy=" + first.policy);
  const auto set_knobs = [&](const std::string& section, const CapacityDesign& design) {
    for (const std::string& knob : design.knobs) {
      config.set(section + "." + knob);
    }
  };
  set_knobs("serving", first);  // apart, too: the section is read for the first pool's layout
  if (apart) {
    set_knobs("deployment.prefill.serving", first);
    set_knobs("deployment.decode.serving", last);
  }
  for (const auto* settings : {&question.settings, &first.settings}) {
    config.set(*settings);
  }
  if (apart) {
    config.set(fmt::format("deployment.prefill.instances={}", pools.front().instances));
    config.set(fmt::format("deployment.decode.instances={}", pools.back().instances));
    config.set(fmt::format("deployment.decode.attention_tp={}", last.attention_tp));
    if (first.ep_size > 0 || last.ep_size > 0) {
      config.set(fmt::format("deployment.decode.ep_size={}", last.ep_ranks()));
    }
  } else if (pools.front().instances > 1) {
    config.set(fmt::format("deployment.instances={}", pools.front().instances));
  }
  return config;
}

std::vector<std::string> knobs_for_memory(const CapacityQuestion& question, CapacityDesign design) {
  constexpr double kEnough = 0.5;
  constexpr int kLargest = 256;
  if (question.dense) {
    return {};  // one DP rank
  }
  // Of no matter here, and slow to read from files.
  const std::vector<std::string> small{
      "requests={kind: poisson, rate: 1/s, count: 1, input_tokens: 1, output_tokens: 1}", "loads={kind: uniform}",
      "plan_loads={kind: uniform}"};
  design.role = InstanceRole::kWhole;
  design.policy = policies_of(design, question.policies).front();
  for (int value = kLargest; value > 0; value /= 2) {
    std::string_view knob;
    try {
      Config config = capacity_scenario(question, {{design, 1}});
      config.set(small);
      ConfigReader serving = config.root().section("serving");
      knob = read_engine_profile(serving).reserve_knob;
      if (knob.empty() || read_scenario(config, {design.policy}).memory.static_fraction >= kEnough) {
        return design.knobs;
      }
    } catch (const InputError& e) {
      if (!e.place.key.ends_with("mem_fraction_static")) {
        return {};  // the search says why
      }
    }
    design.knobs = {fmt::format("{}={}", knob, value)};
  }
  return {};
}

Seconds outlast_ramp(Config& config) {
  constexpr std::size_t kTelling = 2000;  // requests that tell the steady rate
  const Scenario scenario = read_scenario(config, {});
  if (scenario.requests.ramp == 0) {
    return Seconds(0);
  }
  const RequestTrace steady = scenario.make_requests(kTelling);
  const Seconds ramp = to_seconds(steady.requests[steady.ramp].arrival);
  const std::size_t count =
      steady.ramp + static_cast<std::size_t>(std::ceil(arrival_rate(steady) * ramp.count()));  // as long again
  if (count > scenario.requests.requests.size()) {
    Config longer = config.clone();
    longer.set(fmt::format("requests.count={}", count));
    if (longer.root().section("requests").has("duration")) {
      longer.set("requests.duration=null");
    }
    try {
      read_scenario(longer, {});
    } catch (const InputError&) {  // the answer of a long search is not lost for it
      return Seconds(0);
    }
    config = longer;
  }
  return ramp;
}

NewScenario usual_scenario(const CapacityQuestion& question, const CapacityDesign& d) {
  return with_dtype({d.engine, question.model, d.node, "", d.nodes, 0, 0, d.part() ? d.gpus : 0}, d.places_experts());
}

std::vector<std::string> policies_of(const CapacityDesign& layout, std::vector<std::string> policies) {
  std::erase_if(policies, [&](const std::string& policy) {
    return !layout.places_experts() && policy != experts_in_order().name;
  });
  return policies;
}

std::string refusal(const InputError& error) {
  return error.place.key.empty() ? error.problem : fmt::format("`{}`: {}", error.place.key, error.problem);
}

}  // namespace epsim
