#include "sim/scenario/read_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

#include "models/profile/model_ops.h"
#include "sim/domain/affinity.h"
#include "sim/scenario/expert_layout.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/network_options.h"
#include "sim/scenario/read_deployment.h"
#include "sim/scenario/read_names.h"
#include "sim/scenario/read_policies.h"
#include "sim/scenario/root_keys.h"
#include "sim/scenario/scenario_keys.h"
#include "sim/scheduler/engines.h"
#include "traces/expert_loads/collaborators.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/expert_loads/window_load_source.h"
#include "traces/requests/read_requests.h"

namespace epsim {
namespace {

void read_cluster(ConfigReader root, Scenario& s) {
  ClusterSection section = read_cluster_section(root);
  s.cluster = section.cluster;
  s.compute = std::move(section.compute);
  s.network = std::move(section.network);
  s.dispatch.network.fabric = std::move(section.fabric);
}

// GPUs with measured kernels of a type (calibration/FORMAT.md).
std::string_view nodes_with(WeightType type) {
  switch (type) {
    case WeightType::kFp8:
      return "H100, H200, B200 or H800";
    case WeightType::kFp4:
      return "B200";
    case WeightType::kMxfp4:
      return "H100, H200 or B200";
    case WeightType::kInt4:
      return "A100, H100, H200 or B200";
    case WeightType::kBf16:
      break;
  }
  return "any";
}

void check_weight_type(ConfigReader root, const Scenario& s) {
  const WeightType type = s.model.dtype;
  const GpuSpec& gpu = s.cluster.node.gpu;
  ConfigReader model = root.section(kRootKeys["model"]);
  const bool stated = model.has("dtype"), of_experts = type == WeightType::kInt4 || type == WeightType::kMxfp4;
  model.check(
      !s.model.dense() || !of_experts, "dtype",
      fmt::format("{} is of routed experts, and {} has none; use bf16, fp8 or fp4.", name_of(type), s.model.name));
  root.section(kRootKeys["cluster"])
      .check(
          has_kernels(s.compute.fitted.get(), gpu, s.model), "node",
          fmt::format("model.dtype is {0}{1}, and no {0} kernels of the {2} were measured; use {3}, or a node of {4}.",
                      name_of(type), stated ? "" : ", the model's own", gpu.name,
                      type != WeightType::kFp8 && gpu.fp8_peak.count() > 0 ? "fp8 or bf16" : "bf16", nodes_with(type)));
}

// What only layers with experts have.
void check_dense(ConfigReader root, const Scenario& s) {
  if (!s.model.dense()) {
    return;
  }
  root.section(kRootKeys["execution"])
      .check(s.execution.overlap == StepOverlap::kNone, "overlap",
             fmt::format("{} has no experts and no exchange of tokens that anything overlaps.", s.model.name));
  root.section(kRootKeys["dispatch"])
      .check(s.dispatch.network.transport == Transport::kAllReduce, "transport",
             fmt::format("{} has no experts to send tokens to; its GPUs add up by allreduce.", s.model.name));
}

void read_loads(ConfigReader root, bool by_steps, Scenario& s) {
  LoadWindow even(s.model.moe_layers(), s.model.experts);
  if (s.model.dense()) {
    for (const char* section : {"loads", "plan_loads"}) {
      root.check(!root.has(section), section, fmt::format("{} has no experts; leave this out.", s.model.name));
      root.maybe<std::string>(section);  // an override may have taken it away with null
    }
    s.plan_window = s.run_window = even;
    s.loads = s.balanced_loads = std::make_shared<WindowLoadSource>(even, 0, 0.0, s.seed);
    return;
  }
  ConfigReader run = root.required_section("loads");
  s.loads = make_load_source(run, s.model, s.seed);
  s.run_window = read_load_window(run, s.model, s.seed);
  ConfigReader plan = root.required_section("plan_loads");
  s.plan_window = read_load_window(plan, s.model, s.seed, by_steps);
  for (int l = 0; l < even.layers(); ++l) {
    std::fill(even.layer(l).begin(), even.layer(l).end(), 1.0);
  }
  s.balanced_loads = std::make_shared<WindowLoadSource>(even, s.model.top_k, 0.0, s.seed);
}

// Recordings that are totals have no steps to lose.
void warn_of_lost_steps(ConfigReader root, Scenario& s) {
  const bool lost = s.plan_window.batches() == 0 && !s.model.dense() && could_keep_steps(root.section("plan_loads"));
  for (const PolicyChoice& policy : s.policies) {
    const bool uses =
        policy.prefill != nullptr ? policy.prefill->uses_steps || policy.decode->uses_steps : policy.uses_steps;
    if (lost && uses) {
      s.warnings.push_back(fmt::format(
          "plan_loads: the window keeps no steps, so {} plans from their sum. One section of kind model or trace_file "
          "with batches: true keeps them.",
          policy.label));
      return;
    }
  }
}

void read_makers(const Config& config, Scenario& s) {
  ConfigReader requests = config.root().section(kRootKeys["requests"]);
  const RequestSource& source = request_source(requests);
  if (!source.generated) {
    return;
  }
  const bool paced = !source.requests_key.empty();
  const std::string rate_key(source.rate_key);
  const double rate = paced ? requests.required<RequestsPerSecond>(rate_key).count() : 0;
  const auto turn = std::make_shared<std::mutex>();
  const auto make = [document = config.clone(), seed = s.seed, rate_key, rate, turn](std::size_t count, double pace) {
    const std::lock_guard lock(*turn);
    // `count` requests after the ramp, whose length does not depend on how many follow and is known once it has ended.
    for (std::size_t all = count;;) {
      Config own = document.clone();
      own.set(fmt::format("requests.count={}", all));
      own.set("requests.duration=null");
      if (pace != 1) {
        own.set(fmt::format("requests.{}={}/s", rate_key, rate * pace));
      }
      ConfigReader in = own.root().section(kRootKeys["requests"]);
      RequestTrace out = read_requests(in, seed);
      if (out.requests.size() >= count + out.ramp) {
        return out;
      }
      all = std::max(2 * all, count + out.ramp);
    }
  };
  s.make_requests = [make](std::size_t count) { return make(count, 1); };
  if (paced) {
    s.make_paced = make;
  }
}

// All instances of the deployment, as faults may name them.
std::vector<FaultySide> faulty_sides(const Scenario& s) {
  std::vector<FaultySide> out;
  if (s.deployment.single()) {
    out.push_back({s.cluster, InstanceRole::kWhole});
  }
  for (const InstancePool& pool : s.deployment.pools) {
    out.insert(out.end(), static_cast<std::size_t>(pool.instances), {pool.cluster, pool.role});
  }
  return out;
}

// Reads a scenario's sections one by one, so that all of their errors are told at once: a section is left out when it
// is known to be wrong or needs one that is.
class Sections {
 public:
  explicit Sections(const ConfigReader& root) : root_(root), check_(check_scenario_keys(root_)) {
    for (const InputError& error : check_.errors) {
      wrong_.insert(error.place.key.substr(0, error.place.key.find_first_of(".[")));
    }
  }

  template <class Read>
  void read(const std::string& name, const std::vector<std::string>& needs, Read reader) {
    const bool possible = !wrong_.contains(name) && std::none_of(needs.begin(), needs.end(), [&](const auto& other) {
      return wrong_.contains(other);
    });
    if (!possible) {
      wrong_.insert(name);
      return;
    }
    try {
      reader();
    } catch (const InputError& error) {
      check_.errors.push_back(error);
      wrong_.insert(name);
    }
  }

  void finish() {
    std::vector<InputError>& all = check_.errors;
    if (all.empty()) {
      root_.finish();
      return;
    }
    // A reader may have said more of a key than that it is unknown.
    const auto told = [&](const InputError& unknown) {
      return std::any_of(all.begin(), all.end(), [&](const InputError& error) {
        return error.place.key == unknown.place.key && error.place.line == unknown.place.line;
      });
    };
    std::erase_if(check_.unknown, told);
    all.insert(all.end(), check_.unknown.begin(), check_.unknown.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.place.line < b.place.line; });
    throw_all(std::move(all));
  }

 private:
  ConfigReader root_;
  ScenarioCheck check_;
  std::set<std::string> wrong_;
};

// What a label's own sections leave as it is, and what the scenario of such a label takes from the whole one.
constexpr std::string_view kUnchanged[] = {"requests", "loads", "plan_loads"};

void take_unchanged(ConfigReader root, const Scenario& whole, Scenario& s) {
  for (const std::string_view section : kUnchanged) {
    root.section(std::string(section)).pass_over();
  }
  s.requests = whole.requests;
  s.make_requests = whole.make_requests;
  s.make_paced = whole.make_paced;
  s.plan_window = whole.plan_window;
  s.run_window = whole.run_window;
  s.loads = whole.loads;
  s.balanced_loads = whole.balanced_loads;
}

// Parallelism, and the prices of the engine's kernels.
void read_layout(ConfigReader root, Scenario& s) {
  ConfigReader serving = root.section(kRootKeys["serving"]);
  const std::string kernels(read_engine_profile(serving).kernels);
  s.compute.use_kernels_of(kernels);
  s.network.intra.use_kernels_of(kernels);
  read_parallelism(root, s);
  check_weight_type(root, s);
}

void read_transport(ConfigReader root, Scenario& s) {
  ConfigReader serving = root.section(kRootKeys["serving"]);
  const EngineProfile& profile = read_engine_profile(serving);
  s.dispatch = read_dispatch(
      root, {s.cluster, s.network, s.compute, s.model, profile.fp4_rows}, s.dispatch.network.fabric,
      default_transport(profile.name, s.model, s.cluster, s.network, s.parallelism.dp_ranks(), InstanceRole::kWhole));
}

EngineSettings read_serving(ConfigReader root, Scenario& s) {
  ConfigReader serving = root.section(kRootKeys["serving"]);
  const bool fraction_stated = root.section(kRootKeys["memory"]).has("static_fraction");
  EngineSite site = site_of(s.cluster, s.model, s.parallelism.dp_ranks(), s.dispatch, fraction_stated);
  site.pools = has_pools(root);
  EngineSettings engine = read_engine_settings(serving, site);
  s.serving = engine.serving;
  s.model.attention.absorbed_below = engine.serving.absorbed_below;
  s.serving.seed = static_cast<std::uint64_t>(s.seed);
  return engine;
}

Scenario read_with(const Config& config, const std::vector<std::string>& labels, const Scenario* whole);

// Reads labels that have sections of their own; the record of such a label's document goes into that of `config`.
ReadSystem system_reader(const Config& config, const Scenario& s) {
  return [&s, config = Config(config)](const std::vector<std::string>& path, const std::string& label) mutable {
    const Config own = config.with_overrides(path, kSystemSections, kUnchanged);
    auto system = std::make_shared<const Scenario>(
        read_with(own, path.size() > 1 ? std::vector{label} : std::vector<std::string>{}, &s));
    config.record_overrides(path, kSystemSections, own);
    PolicyChoice out = system->policies.front();
    ConfigReader entry = config.root();
    for (const std::string& part : path) {
      entry = entry.section(part);
    }
    out.overrides = settings_of(entry);
    out.system = std::move(system);
    return out;
  };
}

// `whole`: the scenario that this is a label's system of; null: it stands alone.
Scenario read_with(const Config& config, const std::vector<std::string>& labels, const Scenario* whole) {
  ConfigReader root = config.root();
  root.check(!root.has("format"), "format",
             "a scenario has no such key. A routing model is not run by itself: name its file in a scenario, as in "
             "`loads: {kind: model, path: FILE}`.");
  Sections sections(root);
  Scenario s;
  sections.read("name", {}, [&] {
    s.name = root.read<std::string>(kRootKeys["name"]);
    root.check(!s.name.empty() && s.name.find('/') == std::string::npos, "name",
               "a scenario's name becomes the name of its output folder: it must not be empty or hold a slash.");
  });
  sections.read("seed", {}, [&] { s.seed = static_cast<Seed>(root.read<std::int64_t>(kRootKeys["seed"])); });
  sections.read("model", {}, [&] { read_model(root, s); });
  sections.read("cluster", {}, [&] { read_cluster(root, s); });
  sections.read("parallelism", {"model", "cluster", "serving"}, [&] { read_layout(root, s); });
  sections.read("model", {"parallelism"}, [&] { read_kv_type(root, serving_engines(root), s); });
  EngineSettings engine;
  sections.read("dispatch", {"parallelism", "serving", "network"}, [&] { read_transport(root, s); });
  sections.read("serving", {"dispatch"}, [&] { engine = read_serving(root, s); });
  sections.read("memory", {"serving"}, [&] { read_memory(root, engine.memory, s); });
  sections.read("requests", {}, [&] {
    if (whole != nullptr) {
      return take_unchanged(root, *whole, s);
    }
    ConfigReader requests = root.section(kRootKeys["requests"]);
    s.requests = read_requests(requests, s.seed);
    read_makers(config, s);
  });
  sections.read("deployment", {"memory", "requests"}, [&] {
    const ConfigReader parallelism = root.section(kRootKeys["parallelism"]);
    check_ep_size(parallelism, s.parallelism, s.serving, s.dispatch);
    check_rank_over_nodes(parallelism, s.cluster, s.parallelism, s.dispatch);
    s.deployment = read_deployment(root, s);
  });
  sections.read("execution", {}, [&] { s.execution = read_execution_options(root.section(kRootKeys["execution"])); });
  sections.read("model", {"dispatch", "execution"}, [&] { check_dense(root, s); });
  sections.read("faults", {"deployment"}, [&] { s.faults = read_faults(root, faulty_sides(s)); });
  sections.read("protocol", {}, [&] { s.protocol = read_protocol(root.section(kRootKeys["protocol"])); });
  sections.read("loads", {"model", "plan_loads", "policy", "policies"}, [&] {
    if (whole == nullptr) {
      read_loads(root, any_uses_steps(root, labels), s);
    }
  });
  const ReadSystem read_system = whole == nullptr ? system_reader(config, s) : ReadSystem();
  sections.read("policies", {"deployment", "policy", "requests", "loads"},
                [&] { read_policies(root, labels, read_system, s); });
  sections.finish();
  s.warnings = engine_warnings(s);
  if (whole == nullptr) {
    warn_of_lost_steps(root, s);
  }
  s.resolved = config.resolved();
  s.input_files = config.files();
  return s;
}

// `dispatch.collaborators`: plans and runs know the loads as rerouted. Loads without tokens stay as they are, and a run of
// them is refused (prepare_run).
void constrain_routing(Scenario& s) {
  const int count = s.dispatch.collaborators;
  if (count == 0 || s.plan_window.tokens() == nullptr) {
    return;
  }
  ReroutedLoads loads = reroute_loads(count, s.plan_window, s.run_window, s.loads, s.seed);
  s.plan_window = std::move(loads.plan);
  s.run_window = std::move(loads.run);
  s.loads = std::move(loads.loads);
}

}  // namespace

Scenario read_scenario(const Config& config, const std::vector<std::string>& labels) {
  Scenario s = read_with(config, labels, nullptr);
  for (PolicyChoice& policy : s.policies) {
    if (policy.system != nullptr && policy.system->dispatch.collaborators > 0) {
      auto system = std::make_shared<Scenario>(*policy.system);
      constrain_routing(*system);
      policy.system = std::move(system);
    }
  }
  constrain_routing(s);
  return s;
}

namespace {

bool has_request_key(const Scenario& scenario, const std::string& key) {
  return Config::from_text(scenario.resolved, scenario.name).root().section(kRootKeys["requests"]).has(key);
}

}  // namespace

bool takes_rate(const Scenario& scenario) { return !scenario.make_requests || has_request_key(scenario, "rate"); }

std::string length_key(const Scenario& scenario) {
  return has_request_key(scenario, "count") ? "count" : has_request_key(scenario, "duration") ? "duration" : "";
}

}  // namespace epsim
