#include "sim/reproduce/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/report/summary.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/goodput.h"
#include "sim/study/job_runner.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

constexpr std::size_t kLeastRequests = 500;  // of a run below the knee
// Of what fits into the KV pools, a run at saturation takes so many times as many requests.
constexpr double kTimesInPools = 10;
constexpr std::size_t kLeastSaturating = 1000, kMostSaturating = 3000;

using PolicyNeeds = std::map<std::string, std::array<bool, kPaperJobs>>;

constexpr std::size_t place_of(PaperJob job) { return static_cast<std::size_t>(job); }

Numbers numbers_of(const RunResult& run) {
  const RunSummary summary = summarize(run);
  Numbers out;
  for (const Metric& metric : metrics()) {
    if (metric.has_mean() && std::isfinite(summary.numbers[metric.index])) {
      out.emplace(metric.name, summary.numbers[metric.index]);
    }
  }
  return out;
}

RunResult serve_whole(const SearchTarget& target, const RequestTrace& trace) {
  RunResult run = target.serve(trace);
  if (run.interrupted) {
    throw StudyInterrupted();
  }
  return run;
}

JobFigures run_saturated(const SearchTarget& target, int ranks, double rate) {
  const std::vector<Request>& all = target.trace->requests;
  const double tokens = std::accumulate(all.begin(), all.end(), 0.0, [](double sum, const Request& one) {
    return sum + static_cast<double>(one.input_tokens + one.output_tokens);
  });
  const double in_pools =
      static_cast<double>(ranks * target.kv_tokens_per_rank) / (tokens / static_cast<double>(all.size()));
  const std::size_t requests =
      std::clamp(static_cast<std::size_t>(kTimesInPools * in_pools), kLeastSaturating, kMostSaturating);
  return {{}, numbers_of(serve_whole(target, at_rate(first_of(*target.trace, requests), rate)))};
}

// Searches one policy under every seed, and keeps the figures of the runs next below the knees.
class NearKneeSearch {
 public:
  std::vector<JobFigures> run(std::vector<SearchTarget> targets, const GoodputOptions& options) {
    for (SearchTarget& target : targets) {
      target.serve = [this, serve = target.serve](const RequestTrace& trace) { return note(serve(trace)); };
    }
    std::vector<JobFigures> out;
    for (GoodputSearch& search : search_all(targets, options, {})) {
      const auto found = by_fingerprint_.find(search.best.fingerprint);
      EPSIM_CHECK(found != by_fingerprint_.end(), "the run below a knee is one that the search made");
      Numbers near = found->second;
      near["offered_requests_per_s"] = search.best.offered;
      out.push_back({std::move(search), std::move(near)});
    }
    return out;
  }

 private:
  RunResult note(RunResult run) {
    Numbers near = numbers_of(run);
    const std::lock_guard lock(turn_);
    by_fingerprint_[run.fingerprint] = std::move(near);
    return run;
  }

  std::mutex turn_;
  std::map<std::string, Numbers> by_fingerprint_;
};

Numbers plan_numbers(const Scenario& s, const PolicyChoice& policy, const PreparedInstance& run) {
  Numbers out{{"experts_per_gpu", static_cast<double>(s.model.experts) / s.cluster.gpus()},
              {"kv_lost_to_copies_share", run.memory.extras_loss},
              {"kv_pool_gib_per_gpu", to_gib(run.memory.kv_pool)}};
  if (policy.per_step == nullptr) {
    const std::vector<double> planned = balancedness_by_layer(run.placement, planning_window(s, policy));
    out["copies_per_gpu"] = run.plan.copies_on_fullest_gpu();
    out["balancedness_planned"] =
        std::accumulate(planned.begin(), planned.end(), 0.0) / static_cast<double>(planned.size());
  }
  return out;
}

Numbers load_numbers(const LoadWindow& window, const MoeSpec& model) {
  Numbers out;
  for (int l = 0; l < window.layers(); ++l) {
    std::vector<double> row(window.layer(l).begin(), window.layer(l).end());
    std::partial_sort(row.begin(), row.begin() + 2, row.end(), std::greater<>());
    const std::string layer = " " + std::to_string(model.moe_layer_numbers()[static_cast<std::size_t>(l)]);
    out["hottest_over_mean" + layer] = row[0] * window.experts() / window.total(l);
    out["top2_share" + layer] = (row[0] + row[1]) / window.total(l);
  }
  return out;
}

// The window's sums alone: plans are made, and batches take memory.
void let_batches_go(LoadWindow& window) {
  if (window.batches() == 0 || window.affinity() != nullptr) {
    return;
  }
  LoadWindow sums(window.layers(), window.experts());
  for (int l = 0; l < sums.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), sums.layer(l).begin());
  }
  window = std::move(sums);
}

// One setup on its way. Its targets point into it.
class SetupWork {
 public:
  SetupWork(const PaperStudy& paper, const std::string& setup, const PolicyNeeds& needs, const GatherOptions& options,
            const GatherControl& control)
      : paper_(paper), setup_(setup), needs_(needs), options_(options), plans_(control.plans) {
    for (std::size_t j = 0; j < kPaperJobs; ++j) {
      jobs_.push_back(jobs_of(j, control));
    }
    control_.stop = control.stop;
  }
  SetupWork(const SetupWork&) = delete;
  SetupWork& operator=(const SetupWork&) = delete;

  SetupEvidence gather() {
    for (const auto& [policy, unused] : needs_) {
      out_.policies[policy];
    }
    prepare();
    run(PaperJob::kGoodput, [&](const auto& targets) { return NearKneeSearch().run(targets, options_.goodput); });
    run(PaperJob::kBelowKnee, [&](const auto& targets) {
      return by_seed(targets, [&](const SearchTarget& target, std::size_t k) { return run_below_knee(target, k); });
    });
    run(PaperJob::kSaturated, [&](const auto& targets) {
      return by_seed(targets, [&](const SearchTarget& target, std::size_t k) {
        return run_saturated(target, by_seed_[k].parallelism.dp_ranks(), paper_.saturated_rate);
      });
    });
    run(PaperJob::kRun, [&](const auto& targets) {
      return by_seed(targets, [](const SearchTarget& target, std::size_t) {
        return JobFigures{{}, numbers_of(serve_whole(target, *target.trace))};
      });
    });
    return std::move(out_);
  }

 private:
  struct PolicyJobs {
    std::vector<std::string> policies;
    JobRunner<std::vector<JobFigures>> runner;  // by seed
  };

  // What is known under fewer seeds than are needed is made again; of more, the first seeds are taken.
  PolicyJobs jobs_of(std::size_t job, const GatherControl& control) const {
    std::vector<std::string> policies, keys;
    for (const auto& [policy, need] : needs_) {
      if (need[job]) {
        policies.push_back(policy);
        keys.push_back(fmt::format("{}{}-{}-{}", control.key_prefix, setup_, policy, kPaperJobNames[job]));
      }
    }
    const auto read = [wanted = seeds()](const std::string& text) {
      std::optional<std::vector<JobFigures>> found = stored_figures(text);
      if (found && found->size() > wanted) {
        found->erase(found->begin() + static_cast<std::ptrdiff_t>(wanted), found->end());
      }
      return found && found->size() == wanted ? found : std::nullopt;
    };
    return {policies, JobRunner<std::vector<JobFigures>>(
                          keys, {control.store, [](const auto& figures) { return stored_text(figures); }, read})};
  }

  std::size_t seeds() const { return static_cast<std::size_t>(options_.seeds); }

  bool lacks_any(const std::string& policy) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const PolicyJobs& jobs) {
      const std::vector<std::size_t> left = jobs.runner.left();
      return std::any_of(left.begin(), left.end(), [&](std::size_t i) { return jobs.policies[i] == policy; });
    });
  }

  // The scenario under every seed that something is still to be done under, plans made, batches let go.
  void prepare() {
    const std::vector<std::string> labels = mapped(needs_, [](const auto& need) { return need.first; });
    const bool lacking =
        std::any_of(labels.begin(), labels.end(), [&](const std::string& policy) { return lacks_any(policy); });
    const std::size_t wanted = lacking ? seeds() : 1;
    by_seed_.reserve(wanted);  // targets point into it
    for (std::size_t k = 0; k < wanted; ++k) {
      std::vector<std::string> more;
      if (k > 0) {
        more.push_back("seed=" + std::to_string(static_cast<std::uint64_t>(by_seed_.front().seed) + k));
      }
      Scenario& s = by_seed_.emplace_back(scenario_of(paper_, setup_, options_, labels, more));
      if (k == 0) {
        out_.loads = load_numbers(s.plan_window, s.model);
      }
      for (const PolicyChoice& policy : s.policies) {
        prepare_policy(s, policy, k);
      }
      let_batches_go(s.plan_window);
    }
    out_.scenario = by_seed_.front().name;
    out_.seed = static_cast<std::uint64_t>(by_seed_.front().seed);
    out_.resolved = by_seed_.front().resolved;
  }

  void prepare_policy(const Scenario& s, const PolicyChoice& policy, std::size_t seed) {
    if (!needs_.contains(policy.label) || (seed > 0 && !lacks_any(policy.label))) {
      return;  // a setup of which loads alone are asked for has its file's own policy
    }
    auto prepared = std::make_shared<const PreparedRun>(prepare_run(s, policy, plans_));
    if (seed == 0) {
      out_.policies[policy.label].plan = plan_numbers(s, policy, prepared->last());
    }
    targets_[policy.label].push_back(target_of(s, std::move(prepared), static_cast<int>(seed), control_));
    targets_[policy.label].back().longer = {};  // the study states how many requests a rate takes
  }

  // Policies side by side: the more copies, the fewer requests in a step, and the more steps.
  template <class Task>
  void run(PaperJob job, const Task& task) {
    PolicyJobs& jobs = jobs_[place_of(job)];
    const auto copies = [&](std::size_t i) {
      const Numbers& plan = out_.policies[jobs.policies[i]].plan;
      const auto found = plan.find("copies_per_gpu");
      return found != plan.end() ? found->second : 0;
    };
    std::vector<std::size_t> order = jobs.runner.left();
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return copies(a) > copies(b); });
    jobs.runner.run(order, {}, [&](std::size_t i, const Abandoned&) { return task(targets_.at(jobs.policies[i])); });
    for (std::size_t i = 0; i < jobs.policies.size(); ++i) {
      out_.policies[jobs.policies[i]].by_seed[place_of(job)] = *jobs.runner[i];
    }
  }

  template <class One>
  static std::vector<JobFigures> by_seed(const std::vector<SearchTarget>& targets, const One& one) {
    std::vector<JobFigures> out;
    for (std::size_t k = 0; k < targets.size(); ++k) {
      out.push_back(one(targets[k], k));
    }
    return out;
  }

  // At a share of the lowest knee, with as many times the requests in the system as the search has: below its knee no
  // policy is saturated.
  JobFigures run_below_knee(const SearchTarget& target, std::size_t seed) const {
    const auto search_of = [&](const std::string& policy) -> const GoodputSearch& {
      return *out_.policies.at(policy).of(PaperJob::kGoodput)[seed].search;
    };
    const auto knee = [&](const std::string& policy) { return search_of(policy).knee.rate; };
    const GoodputSearch& lowest = search_of(*std::ranges::min_element(paper_.below_knee.at(setup_), {}, knee));
    const double rate = paper_.below_knee_share * lowest.knee.rate;
    const auto enough = static_cast<std::size_t>(options_.goodput.min_requests_ratio * lowest.best.concurrency);
    const RequestTrace trace = at_rate(first_of(*target.trace, std::max(enough, kLeastRequests)), rate);
    const RunResult run = serve_whole(target, trace);
    JobFigures out{{}, numbers_of(run)};
    out.numbers["ttft_mean_ms"] = measure_load_point(run, rate, options_.goodput).ttft_s.mean * 1e3;
    out.numbers["offered_requests_per_s"] = rate;
    return out;
  }

  const PaperStudy& paper_;
  const std::string& setup_;
  const PolicyNeeds& needs_;
  const GatherOptions& options_;
  PlanCache* plans_;
  RunControl control_;
  std::vector<PolicyJobs> jobs_;  // [job]
  SetupEvidence out_;
  std::vector<Scenario> by_seed_;
  std::map<std::string, std::vector<SearchTarget>> targets_;  // [policy][seed]
};

}  // namespace

Scenario scenario_of(const PaperStudy& paper, const std::string& setup, const GatherOptions& options,
                     const std::vector<std::string>& policies, const std::vector<std::string>& more, bool brief) {
  const PaperSetup& of = paper.setup(setup);
  const auto own = options.more_of.find(setup);
  Config config = Config::from_file(of.scenario);
  for (const std::vector<std::string>* assignments :
       {&paper.set, &of.set, &options.overrides, own != options.more_of.end() ? &own->second : nullptr, &more}) {
    for (std::size_t i = 0; assignments != nullptr && i < assignments->size(); ++i) {
      config.set((*assignments)[i]);
    }
  }
  for (const char* section : {"plan_loads", "loads"}) {
    if (brief && config.root().section(section).optional<std::string>("kind", "") == "model") {
      config.set(std::string(section) + ".steps=2");
    }
  }
  return read_scenario(config, policies);
}

PaperEvidence gather(const PaperStudy& paper, const PaperNeeds& needs, const GatherOptions& options,
                     const GatherControl& control) {
  const std::vector<std::string> names = mapped(needs, [](const auto& need) { return need.first; });
  JobControl jobs{.stop = control.stop};
  if (control.on_setup) {
    jobs.on_finished = [&](std::size_t i) { control.on_setup(names[i], names.size()); };
  }
  JobRunner<SetupEvidence> runner(names);
  const Shard shard = control.store != nullptr ? control.store->shard() : Shard{};
  runner.run(jobs_of(shard, names.size()), jobs, [&](std::size_t i, const Abandoned&) {
    try {
      return SetupWork(paper, names[i], needs.at(names[i]), options, control).gather();
    } catch (const InputError& e) {
      throw InputError(e.place, fmt::format("{} (On the setup {}.)", e.problem, names[i]));
    }
  });
  if (!shard.whole()) {
    throw ShardFinished();
  }
  PaperEvidence out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out[names[i]] = *runner[i];
  }
  return out;
}

}  // namespace epsim
