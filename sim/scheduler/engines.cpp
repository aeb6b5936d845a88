#include "sim/scheduler/engines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "sim/core/check.h"

namespace epsim {

// Each engine makes its profile beside its rules.
EngineProfile sglang_0_4_8();
EngineProfile sglang_0_4_10();
EngineProfile vllm_v1();

std::span<const EngineProfile> engine_profiles() {
  static const EngineProfile profiles[] = {sglang_0_4_8(), sglang_0_4_10(), vllm_v1()};
  return profiles;
}

namespace {

bool has_knob(const EngineProfile& profile, std::string_view knob) {
  return std::find(profile.knobs.begin(), profile.knobs.end(), knob) != profile.knobs.end();
}

void refuse_other_engines_knobs(const ConfigReader& in, const EngineProfile& own) {
  for (const std::string& key : in.keys()) {
    if (has_knob(own, key)) {
      continue;
    }
    for (const EngineProfile& other : engine_profiles()) {
      if (has_knob(other, key)) {
        in.fail(key, fmt::format("this is a knob of {}, and the engine is {}; its knobs: {}.", other.name, own.name,
                                 fmt::join(own.knobs, ", ")));
      }
    }
  }
}

void read_speculation(ConfigReader in, SpeculativeOptions& out) {
  out.draft_tokens = in.optional<int>("draft_tokens", 0);
  if (out.draft_tokens > 0) {
    out.acceptance = in.required<double>("acceptance");
    in.check(out.acceptance <= 1, "acceptance", "a probability is at most 1.");
  }
}

// Eager decode steps of Llama-3-8B at batch 1 take 8.23 ms (FlashInfer) and 9.28 ms (Triton) with 32 layers of 12 kernels
// (eager_work.h): 21.4 and 24.2 us. SGLang and vLLM agree within 1.3 % in DeepSpeed's pull request 8352.
const EngineDefault<Seconds> kLaunchTime{Seconds(23e-6),
                                         "SGLang without CUDA graphs, Llama-3-8B at batch 1 (sglang pull request 1401)"};

void read_common(ConfigReader& in, ServingOptions& out) {
  const std::string router = in.choice("router", {"round_robin", "least_tokens", "cache_aware"}, "round_robin");
  out.router = router == "round_robin"    ? Router::kRoundRobin
               : router == "least_tokens" ? Router::kLeastTokens
                                          : Router::kCacheAware;
  out.step_gap = in.optional("step_gap", Seconds{});
  out.launch_time = or_engine(in, "launch_time", kLaunchTime, Bound::kNotNegative);
  out.gaps.graph = in.optional("graph_gap", Seconds{});
  out.gaps.eager = in.optional("eager_gap", Seconds{});
  out.gaps.scheduler = in.optional("scheduler_gap", Seconds{});
}

}  // namespace

const EngineProfile& find_engine(std::string_view name) {
  const auto profiles = engine_profiles();
  const auto found = std::find_if(profiles.begin(), profiles.end(), [&](const auto& p) { return p.name == name; });
  EPSIM_CHECK(found != profiles.end(), "an engine is named as the table has it");
  return *found;
}

const EngineProfile& read_engine_profile(ConfigReader& in, const std::string& engine) {
  std::vector<std::string> names;
  for (const EngineProfile& profile : engine_profiles()) {
    names.emplace_back(profile.name);
  }
  for (const EngineAlias& alias : kEngineAliases) {
    names.emplace_back(alias.name);
  }
  std::string name = in.choice("engine", names, engine);
  for (const EngineAlias& alias : kEngineAliases) {
    name = name == alias.name ? alias.engine : name;
  }
  return find_engine(name);
}

EngineSettings read_engine_settings(ConfigReader& in, const EngineSite& site, const std::string& engine) {
  const EngineProfile& profile = read_engine_profile(in, engine);
  refuse_other_engines_knobs(in, profile);
  EngineSettings out;
  ServingOptions& s = out.serving;
  s.engine = profile.name;
  s.dp_ranks = site.dp_ranks;
  s.graphs.size = profile.graph_size;
  const bool divided = in.choice("budgets", {"per_rank", "divided_by_dp"}, "per_rank") == "divided_by_dp";
  read_speculation(in.section("speculative"), s.speculative);
  profile.read(in, {divided, site.dp_ranks}, site, out);
  read_common(in, s);
  return out;
}

std::unique_ptr<Scheduler> make_scheduler(const ServingOptions& options, const RankContext& context) {
  return find_engine(options.engine).make_scheduler(options, context);
}

}  // namespace epsim
