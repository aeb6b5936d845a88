#include "sim/reproduce/craft_gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "sim/core/check.h"
#include "sim/reproduce/craft_describe.h"
#include "sim/reproduce/craft_store.h"
#include "sim/study/job_runner.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

constexpr std::size_t kLeastRequests = 500;  // of a run at a fixed rate
// Several times what fits into the KV pools; three times the largest of the setups', 12 ranks with 72 requests each.
constexpr double kTimesInPools = 10;
constexpr std::size_t kLeastSaturating = 1000, kMostSaturating = 3000;
// Not all at once: ranks would stay in step with each other, and wait for KV cache at the same time.
constexpr double kSaturatingRate = 50;

struct PolicyNeed {
  bool searched = false, fixed_rate = false, saturated = false;
};
using SetupNeeds = std::map<std::string, PolicyNeed, std::less<>>;

RunResult serve_whole(const SearchTarget& target, const RequestTrace& trace) {
  RunResult run = target.serve(trace);
  if (run.interrupted) {
    throw StudyInterrupted();
  }
  return run;
}

double part_share(const RunResult& run, LayerPart part) {
  return run.time.by_part[static_cast<std::size_t>(part)] / run.time.total;
}

NearKnee near_knee_of(const RunResult& run) {
  NearKnee out;
  out.itl_mean_s = run.latency.itl_s.mean;
  const KindTotals& decodes = run.of_kind(StepKind::kDecode);
  out.decode_step_s = decodes.time.total.count() / static_cast<double>(decodes.steps);
  for (const LayerTotals& layer : run.detail.layers) {
    out.balancedness += layer.balancedness_sum / static_cast<double>(run.steps * std::ssize(run.detail.layers));
  }
  for (std::size_t p = 0; p < out.part_share.size(); ++p) {
    out.part_share[p] = part_share(run, static_cast<LayerPart>(p));
  }
  out.kv_full_share = run.kv.time_full_share;
  out.extrapolated_share = run.time.by_origin[static_cast<std::size_t>(Origin::kExtrapolated)] / run.time.total;
  return out;
}

Saturated run_saturated(const SearchTarget& target, int ranks) {
  const Request& one = target.trace->requests.front();  // all are of one size
  const double in_pools =
      static_cast<double>(ranks * target.kv_tokens_per_rank) / (one.input_tokens + one.output_tokens);
  const std::size_t requests =
      std::clamp(static_cast<std::size_t>(kTimesInPools * in_pools), kLeastSaturating, kMostSaturating);
  const RunResult run = serve_whole(target, at_rate(first_of(*target.trace, requests), kSaturatingRate));
  return {run.kv.time_full_share, part_share(run, LayerPart::kDispatch) + part_share(run, LayerPart::kCombine)};
}

// Searches one policy under every seed, and keeps what the runs next below the knees were like.
class NearKneeSearch {
 public:
  std::vector<SearchedPolicy> run(std::vector<SearchTarget> targets, const GoodputOptions& options) {
    for (SearchTarget& target : targets) {
      target.serve = [this, serve = target.serve](const RequestTrace& trace) { return note(serve(trace)); };
    }
    std::vector<SearchedPolicy> out;
    for (GoodputSearch& search : search_all(targets, options, {})) {
      const auto found = by_fingerprint_.find(search.best.fingerprint);
      EPSIM_CHECK(found != by_fingerprint_.end(), "the run below a knee is one that the search made");
      NearKnee near = found->second;
      near.rate = search.best.offered;
      out.push_back({std::move(search), near});
    }
    return out;
  }

 private:
  RunResult note(RunResult run) {
    const NearKnee near = near_knee_of(run);
    const std::lock_guard lock(turn_);
    by_fingerprint_[run.fingerprint] = near;
    return run;
  }

  std::mutex turn_;
  std::map<std::string, NearKnee> by_fingerprint_;
};

// What is asked of several policies alike: a job each.
template <class Figures>
struct PolicyJobs {
  std::vector<std::string> policies;
  JobRunner<std::vector<Figures>> runner;  // by seed

  bool lacks(const std::string& policy) const {
    const std::vector<std::size_t> left = runner.left();
    return std::any_of(left.begin(), left.end(), [&](std::size_t i) { return policies[i] == policy; });
  }
};

// One setup on its way. Its targets point into it.
class SetupWork {
 public:
  SetupWork(const CraftSetup& setup, const SetupNeeds& needs, const CraftStudyOptions& options,
            const GatherControl& control)
      : setup_(setup),
        needs_(needs),
        options_(options),
        plans_(control.plans),
        searched_(jobs_of<SearchedPolicy>(&PolicyNeed::searched, "", control)),
        saturated_(jobs_of<Saturated>(&PolicyNeed::saturated, "-saturated", control)),
        fixed_(jobs_of<FixedRate>(&PolicyNeed::fixed_rate, "-fixed", control)) {
    control_.stop = control.stop;
  }
  SetupWork(const SetupWork&) = delete;
  SetupWork& operator=(const SetupWork&) = delete;

  SetupEvidence gather() {
    out_.seeds = seeds();
    for (const auto& [policy, unused] : needs_) {
      out_.policies[policy];
    }
    prepare();
    run(searched_, [&](const auto& targets) { return NearKneeSearch().run(targets, options_.goodput); });
    for (std::size_t i = 0; i < searched_.policies.size(); ++i) {
      for (const SearchedPolicy& one : *searched_.runner[i]) {
        of(searched_.policies[i]).searches.push_back(one.search);
        of(searched_.policies[i]).near_knee.push_back(one.near_knee);
      }
    }
    run(saturated_, [&](const auto& targets) { return saturate(targets); });
    run(fixed_, [&](const auto& targets) { return serve_fixed_rate(targets); });
    for (std::size_t i = 0; i < saturated_.policies.size(); ++i) {
      of(saturated_.policies[i]).saturated = *saturated_.runner[i];
    }
    for (std::size_t i = 0; i < fixed_.policies.size(); ++i) {
      of(fixed_.policies[i]).fixed = *fixed_.runner[i];
    }
    return std::move(out_);
  }

 private:
  std::size_t seeds() const { return static_cast<std::size_t>(options_.seeds); }
  PolicyEvidence& of(const std::string& policy) { return out_.policies.find(policy)->second; }
  bool lacks_any(const std::string& policy) const {
    return searched_.lacks(policy) || saturated_.lacks(policy) || fixed_.lacks(policy);
  }

  // What is known under fewer seeds than are needed is made again; of more, the first seeds are taken.
  template <class Figures>
  PolicyJobs<Figures> jobs_of(bool PolicyNeed::*asked, const char* what, const GatherControl& control) const {
    std::vector<std::string> policies, keys;
    for (const auto& [policy, need] : needs_) {
      if (need.*asked) {
        policies.push_back(policy);
        keys.push_back(fmt::format("{}{}-{}{}", control.key_prefix, setup_.name, policy, what));
      }
    }
    const auto read = [wanted = seeds()](const std::string& text) {
      std::optional<std::vector<Figures>> found = stored_by_seed<Figures>(text);
      if (found && found->size() > wanted) {
        found->erase(found->begin() + static_cast<std::ptrdiff_t>(wanted), found->end());
      }
      return found && found->size() == wanted ? found : std::nullopt;
    };
    return {policies, JobRunner<std::vector<Figures>>(
                          keys, {control.store, [](const auto& by_seed) { return stored_text(by_seed); }, read})};
  }

  // The scenario under every seed that something is still to be done under, plans made, batches let go.
  void prepare() {
    std::vector<std::string> labels;
    bool lacking = false;
    for (const auto& [policy, unused] : needs_) {
      labels.push_back(policy);
      lacking = lacking || lacks_any(policy);
    }
    const std::size_t wanted = lacking ? seeds() : 1;
    by_seed_.reserve(wanted);  // targets point into it
    for (std::size_t k = 0; k < wanted; ++k) {
      std::vector<std::string> overrides = options_.overrides;
      if (options_.overrides_of != nullptr) {
        const std::vector<std::string> more = options_.overrides_of(setup_);
        overrides.insert(overrides.end(), more.begin(), more.end());
      }
      if (k > 0) {
        overrides.push_back("seed=" + std::to_string(static_cast<std::uint64_t>(by_seed_.front().seed) + k));
      }
      Scenario& s = by_seed_.emplace_back(craft_scenario(setup_, options_.memory, overrides, labels));
      if (k == 0) {
        describe_window(s, out_);
      }
      for (const PolicyChoice& policy : s.policies) {
        prepare_policy(s, policy, k);
      }
      s.plan_window = summed(s.plan_window);
    }
  }

  void prepare_policy(const Scenario& s, const PolicyChoice& policy, std::size_t seed) {
    if (seed > 0 && !lacks_any(policy.label)) {
      return;
    }
    auto prepared = std::make_shared<const PreparedRun>(prepare_run(s, policy, plans_));
    if (seed == 0) {
      describe_plan(prepared->last(), s.plan_window, of(policy.label));
    }
    targets_[policy.label].push_back(target_of(s, std::move(prepared), static_cast<int>(seed), control_));
    targets_[policy.label].back().longer = {};  // the study states how many requests a rate takes
  }

  // Policies side by side: the more copies, the fewer requests in a step, and the more steps.
  template <class Figures, class Task>
  void run(PolicyJobs<Figures>& jobs, const Task& task) {
    std::vector<std::size_t> order = jobs.runner.left();
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return of(jobs.policies[a]).copies_per_gpu > of(jobs.policies[b]).copies_per_gpu;
    });
    jobs.runner.run(order, {},
                    [&](std::size_t i, const Abandoned&) { return task(targets_.find(jobs.policies[i])->second); });
  }

  std::vector<Saturated> saturate(const std::vector<SearchTarget>& targets) const {
    std::vector<Saturated> out;
    for (const SearchTarget& target : targets) {
      out.push_back(run_saturated(target, setup_.nodes()));
    }
    return out;
  }

  // Of the policies that are compared at a fixed rate, as far as they are searched: below its knee none is saturated.
  const GoodputSearch& lowest_search(std::size_t seed) {
    const GoodputSearch* out = nullptr;
    for (const auto& [policy, need] : needs_) {
      if (need.fixed_rate && !of(policy).searches.empty()) {
        const GoodputSearch& search = of(policy).searches[seed];
        out = out == nullptr || search.knee.rate < out->knee.rate ? &search : out;
      }
    }
    EPSIM_CHECK(out != nullptr, "one of the policies that are compared at a share of a knee is searched");
    return *out;
  }

  // With as many times the requests in the system as the search has.
  FixedRate run_fixed_rate(const SearchTarget& target, const GoodputSearch& lowest) {
    const double rate = kNearSaturation * lowest.knee.rate;
    const auto enough = static_cast<std::size_t>(options_.goodput.min_requests_ratio * lowest.best.concurrency);
    const RequestTrace trace = at_rate(first_of(*target.trace, std::max(enough, kLeastRequests)), rate);
    return {rate, measure_load_point(serve_whole(target, trace), rate, options_.goodput).ttft_s.mean};
  }

  std::vector<FixedRate> serve_fixed_rate(const std::vector<SearchTarget>& targets) {
    std::vector<FixedRate> out;
    for (std::size_t k = 0; k < targets.size(); ++k) {
      out.push_back(run_fixed_rate(targets[k], lowest_search(k)));
    }
    return out;
  }

  const CraftSetup& setup_;
  const SetupNeeds& needs_;
  const CraftStudyOptions& options_;
  PlanCache* plans_;
  RunControl control_;
  PolicyJobs<SearchedPolicy> searched_;
  PolicyJobs<Saturated> saturated_;
  PolicyJobs<FixedRate> fixed_;
  SetupEvidence out_;
  std::vector<Scenario> by_seed_;
  std::map<std::string, std::vector<SearchTarget>, std::less<>> targets_;  // [policy][seed]
};

// Errors of input say on which setup.
SetupEvidence gather_setup(const CraftSetup& setup, const SetupNeeds& needs, const CraftStudyOptions& options,
                           const GatherControl& control) {
  try {
    return SetupWork(setup, needs, options, control).gather();
  } catch (const InputError& e) {
    throw InputError(e.place, fmt::format("{} (On the setup {}.)", e.problem, setup.name));
  }
}

}  // namespace

CraftEvidence gather_craft_evidence(std::span<const CraftNeed> needs, const CraftStudyOptions& options,
                                    const GatherControl& control) {
  std::map<std::string, SetupNeeds> by_setup;
  for (const CraftNeed& need : needs) {
    PolicyNeed& asked = by_setup[std::string(need.setup)][std::string(need.policy)];
    asked.searched = asked.searched || need.searched;
    asked.fixed_rate = asked.fixed_rate || need.fixed_rate;
    asked.saturated = asked.saturated || need.saturated;
  }
  std::vector<std::string> names;
  for (const auto& [name, unused] : by_setup) {
    names.push_back(name);
  }
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return craft_setup(a).nodes() < craft_setup(b).nodes();  // the fewer, the fewer requests in a step
  });
  JobControl jobs{.stop = control.stop};
  if (control.on_setup) {
    jobs.on_finished = [&](std::size_t i) { control.on_setup(names[i], names.size()); };
  }
  JobRunner<SetupEvidence> runner(names);
  runner.run(all_jobs(names.size()), jobs, [&](std::size_t i, const Abandoned&) {
    return gather_setup(craft_setup(names[i]), by_setup.at(names[i]), options, control);
  });
  CraftEvidence out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out[names[i]] = *runner[i];
  }
  return out;
}

}  // namespace epsim
