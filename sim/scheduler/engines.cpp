#include "sim/scheduler/engines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/named.h"

namespace epsim {

// Each engine makes its profile beside its rules.
EngineProfile sglang_0_4_8();
EngineProfile sglang_0_4_10();
EngineProfile sglang_0_5();
EngineProfile vllm_v1();
EngineProfile vllm_0_14();
EngineProfile trtllm_1_x();
EngineProfile trtllm_1_2();

std::span<const EngineProfile> engine_profiles() {
  static const EngineProfile profiles[] = {sglang_0_4_8(), sglang_0_4_10(), sglang_0_5(), vllm_v1(),
                                           vllm_0_14(),    trtllm_1_x(),    trtllm_1_2()};
  return profiles;
}

namespace {

enum class BudgetsOf { kPerRank, kDividedByDp };

}  // namespace

template <>
inline constexpr auto kNames<BudgetsOf> = choice<BudgetsOf>({{"per_rank", BudgetsOf::kPerRank},
                                                             {"divided_by_dp", BudgetsOf::kDividedByDp}});

namespace {

std::vector<std::string> engine_names() {
  std::vector<std::string> out = entry_names(engine_profiles());
  const std::vector<std::string> aliases = entry_names(kEngineAliases);
  out.insert(out.end(), aliases.begin(), aliases.end());
  return out;
}

constexpr KeyTable kKeys({
    {"engine", key::one_of(engine_names, "epsim list engines"), key::is(kDefaultEngine),
     "Engine whose scheduling rules apply."},
    {"budgets", key::one_of<BudgetsOf>(), key::is(BudgetsOf::kPerRank),
     "Whether token and request budgets are per DP rank, or of all ranks together."},
    {"router", key::one_of<Router>(),
     key::by("round_robin; random in prefill instances of SGLang 0.5; least_requests with vLLM, even_requests with "
             "TensorRT-LLM"),
     "Which DP rank takes a request."},
    {"step_gap", key::time(), key::is(Seconds(0)), "Time added to every step."},
    {"launch_time", key::time(), key::by("the engine's"),
     "Host time per kernel of a step without a CUDA graph; 0s: the host is never waited for."},
    {"request_time", key::time(), key::by("the engine's"),
     "Time of each request outside the scheduler before its first token: HTTP, messages, detokenizer."},
    {"token_time", key::time(), key::by("the engine's"), "Time of the tokenizer for each token of a prompt."},
    {"shared_stream_tokens", key::whole(), key::by("the engine's"),
     "Graph-replayed decode steps of up to this many tokens (vLLM: of a DP rank) overlap shared experts with gate and "
     "routed ones."},
    {"graph_gap", key::time(), key::is(Seconds(0)), "Time added to steps replayed from a CUDA graph."},
    {"eager_gap", key::time(), key::is(Seconds(0)), "Time added to steps without a CUDA graph."},
    {"scheduler_gap", key::time(), key::by("the engine's"),
     "Host time added to steps whose scheduling does not overlap the step before."},
    {"speculative", key::section(), key::kNone, "Speculative decoding."},
});
constexpr KeyTable kSpeculativeKeys({
    {"draft_tokens", key::whole(), key::is(0), "Proposed tokens per step; 0 turns it off."},
    {"acceptance", key::number_or_list(kShare), key::by("required with draft_tokens"),
     "Probability that a proposed token is accepted if those before it were; a list: by position."},
    {"drafter", key::one_of<DrafterKind>(), key::is(DrafterKind::kMtpLayer),
     "What proposes the tokens: a layer like the model's last, or nothing that takes time."},
});

bool has_knob(const EngineProfile& profile, std::string_view knob) { return find_named(profile.keys, knob) != nullptr; }

void refuse_other_engines_knobs(const ConfigReader& in, const EngineProfile& own) {
  for (const std::string& key : in.keys()) {
    if (has_knob(own, key)) {
      continue;
    }
    for (const EngineProfile& other : engine_profiles()) {
      if (has_knob(other, key)) {
        const auto alias = std::ranges::find(kEngineAliases, own.name, &EngineAlias::engine);
        const std::string also =
            alias != std::end(kEngineAliases) ? fmt::format(" ({} is an alias of it)", alias->name) : "";
        in.fail(key, fmt::format("this is a knob of {}, and the engine is {}{}; its knobs: {}.", other.name, own.name,
                                 also, fmt::join(entry_names(own.keys), ", ")));
      }
    }
  }
}

void read_speculation(ConfigReader in, SpeculativeOptions& out) {
  out.draft_tokens = in.read<int>(kSpeculativeKeys["draft_tokens"]);
  if (out.draft_tokens > 0) {
    out.acceptance = in.read<NumberOrList>(kSpeculativeKeys["acceptance"]).values;
    in.check(!out.acceptance.empty() && std::ssize(out.acceptance) <= out.draft_tokens, "acceptance",
             fmt::format("there are {} of it and {} draft_tokens; give one for all, or up to one for each.",
                         out.acceptance.size(), out.draft_tokens));
    out.drafter = in.read<DrafterKind>(kSpeculativeKeys["drafter"]);
  }
}

void read_common(ConfigReader& in, const EngineProfile& profile, const EngineSite& site, ServingOptions& out) {
  // With pools, not recorded: the resolved scenario would state decode instances' router for both.
  const Router router = site.role == InstanceRole::kPrefill ? profile.prefill_router : profile.router;
  out.router =
      site.pools ? in.maybe<Router>(kKeys["router"]).value_or(router) : in.read<Router>(kKeys["router"], router);
  out.step_gap = in.read<Seconds>(kKeys["step_gap"]);
  out.launch_time = or_engine(in, kKeys["launch_time"], profile.launch_time);
  out.request_time = or_engine(in, kKeys["request_time"], profile.request_time);
  out.token_time = or_engine(in, kKeys["token_time"], profile.token_time);
  out.shared_stream_tokens =
      or_engine(in, kKeys["shared_stream_tokens"],
                site.deep_ep ? profile.shared_stream_with_deep_ep : profile.shared_stream_tokens);
  out.shared_stream_by_rank = profile.shared_stream_by_rank;
  out.gaps.graph = in.read<Seconds>(kKeys["graph_gap"]);
  out.gaps.eager = in.read<Seconds>(kKeys["eager_gap"]);
  const EngineDefault<Seconds> gap = profile.scheduler_gap(site, out.speculative.has_layer());
  if (out.overlap_schedule) {  // prefill instances of it may do without
    out.gaps.scheduler = in.maybe<Seconds>(kKeys["scheduler_gap"]).value_or(gap.value);
    note_idle_knobs(in,
                    {{kKeys["scheduler_gap"], out.gaps.scheduler.count(), site.pools || !in.has("scheduler_gap"),
                      "the schedule overlaps", 0.0}},
                    out);
  } else {
    out.gaps.scheduler = or_engine(in, kKeys["scheduler_gap"], gap);
  }
}

}  // namespace

const EngineProfile& find_engine(std::string_view name) {
  const EngineProfile* found = find_named(engine_profiles(), name);
  EPSIM_CHECK(found != nullptr, "an engine is named as the table has it");
  return *found;
}

std::vector<SectionKeys> serving_keys() {
  std::vector<SectionKeys> out{{"serving", "", kKeys}, {"serving.speculative", "", kSpeculativeKeys}};
  add_entries("serving", engine_profiles(), out);
  for (const EngineAlias& alias : kEngineAliases) {
    out.push_back({"serving", alias.name, find_engine(alias.engine).keys});
  }
  return out;
}

const EngineProfile& read_engine_profile(ConfigReader& in) {
  auto name = in.read<std::string>(kKeys["engine"]);
  for (const EngineAlias& alias : kEngineAliases) {
    name = name == alias.name ? alias.engine : name;
  }
  return find_engine(name);
}

void default_engine(ConfigReader& in, const std::string& engine) { in.preset<std::string>("engine", engine); }

EngineSettings read_engine_settings(ConfigReader& in, const EngineSite& site) {
  const EngineProfile& profile = read_engine_profile(in);
  refuse_other_engines_knobs(in, profile);
  EngineSettings out;
  ServingOptions& s = out.serving;
  s.engine = profile.name;
  s.dp_ranks = site.dp_ranks;
  s.graphs.size = profile.graph_size;
  const bool divided = in.read<BudgetsOf>(kKeys["budgets"]) == BudgetsOf::kDividedByDp;
  read_speculation(in.section(kKeys["speculative"]), s.speculative);
  profile.read(in, {divided, site.dp_ranks}, site, out);
  read_common(in, profile, site, s);
  return out;
}

std::unique_ptr<Scheduler> make_scheduler(const ServingOptions& options, const RankContext& context) {
  return find_engine(options.engine).make_scheduler(options, context);
}

}  // namespace epsim
