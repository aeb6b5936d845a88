#include "sim/reproduce/craft_gather.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>

#include "sim/core/check.h"
#include "sim/reproduce/craft_describe.h"
#include "sim/study/probe.h"

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

// task(0) to task(n - 1) side by side, begun in that order: the longest come first, so that none is left over alone.
template <class Task>
void begin_in_order(std::size_t n, const Task& task) {
  std::atomic<std::size_t> next{0};
  tbb::parallel_for(std::size_t{0}, n, [&](std::size_t) { task(next++); });
}

RunResult serve_whole(const GoodputSubject& subject, const RequestTrace& trace) {
  RunResult run = subject.serve(trace);
  if (run.interrupted) {
    throw SearchInterrupted();
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

Saturated run_saturated(const GoodputSubject& subject, int ranks) {
  const Request& one = subject.trace->requests.front();  // all are of one size
  const double in_pools =
      static_cast<double>(ranks * subject.kv_tokens_per_rank) / (one.input_tokens + one.output_tokens);
  const std::size_t requests =
      std::clamp(static_cast<std::size_t>(kTimesInPools * in_pools), kLeastSaturating, kMostSaturating);
  const RunResult run = serve_whole(subject, at_rate(first_of(*subject.trace, requests), kSaturatingRate));
  return {run.kv.time_full_share, part_share(run, LayerPart::kDispatch) + part_share(run, LayerPart::kCombine)};
}

// Searches one policy under every seed, and keeps what the runs next below the knees were like.
class NearKneeSearch {
 public:
  PolicySearch run(std::vector<GoodputSubject> subjects, const GoodputOptions& options) {
    for (GoodputSubject& subject : subjects) {
      subject.serve = [this, serve = subject.serve](const RequestTrace& trace) { return note(serve(trace)); };
    }
    PolicySearch out;
    out.by_seed = search_all(subjects, options, {});
    for (const GoodputSearch& search : out.by_seed) {
      const auto found = by_fingerprint_.find(search.best.fingerprint);
      EPSIM_CHECK(found != by_fingerprint_.end(), "the run below a knee is one that the search made");
      out.near_knee.push_back(found->second);
      out.near_knee.back().rate = search.best.offered;
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

// One setup on its way. Its subjects point into it.
class SetupWork {
 public:
  SetupWork(const CraftSetup& setup, const SetupNeeds& needs, const CraftStudyOptions& options,
            const GatherControl& control)
      : setup_(setup), needs_(needs), options_(options), store_(control.store) {
    control_.stop = control.stop;
  }
  SetupWork(const SetupWork&) = delete;
  SetupWork& operator=(const SetupWork&) = delete;

  SetupEvidence gather() {
    out_.seeds = seeds();
    for (const auto& [policy, need] : needs_) {
      out_.policies[policy];
      load_finished(policy, need);
    }
    prepare();
    for_each_policy([&](const std::string& policy, const PolicyNeed& need) {
      search(policy, need);
      saturate(policy, need);
    });
    for_each_policy([&](const std::string& policy, const PolicyNeed& need) { serve_fixed_rate(policy, need); });
    return std::move(out_);
  }

 private:
  std::size_t seeds() const { return static_cast<std::size_t>(options_.seeds); }
  PolicyEvidence& of(const std::string& policy) { return out_.policies.find(policy)->second; }
  bool lacks_searches(const std::string& policy, const PolicyNeed& need) {
    return need.searched && of(policy).searches.empty();
  }
  bool lacks_fixed(const std::string& policy, const PolicyNeed& need) {
    return need.fixed_rate && of(policy).fixed.empty();
  }
  bool lacks_saturated(const std::string& policy, const PolicyNeed& need) {
    return need.saturated && of(policy).saturated.empty();
  }
  bool lacks_any(const std::string& policy, const PolicyNeed& need) {
    return lacks_searches(policy, need) || lacks_fixed(policy, need) || lacks_saturated(policy, need);
  }

  std::string name_of(const std::string& policy, const char* what) const {
    return fmt::format("{}-{}{}", setup_.name, policy, what);
  }
  std::optional<std::string> load(const std::string& policy, const char* what) const {
    return store_ != nullptr ? store_->load(name_of(policy, what)) : std::nullopt;
  }
  template <class Figures>
  void save(const std::string& policy, const char* what, const Figures& figures) const {
    if (store_ != nullptr) {
      store_->save(name_of(policy, what), stored_text(figures));
    }
  }

  // What is known under fewer seeds than are needed is made again; of more, the first seeds are taken.
  template <class BySeed>
  void take_seeds(std::optional<BySeed> found, BySeed& out) const {
    if (found && found->size() >= seeds()) {
      found->resize(seeds());
      out = std::move(*found);
    }
  }
  void load_finished(const std::string& policy, const PolicyNeed& need) {
    PolicyEvidence& out = of(policy);
    if (const auto text = need.searched ? load(policy, "") : std::nullopt) {
      if (std::optional<PolicySearch> found = stored_search(*text)) {
        take_seeds(std::optional(std::move(found->by_seed)), out.searches);
        take_seeds(std::optional(std::move(found->near_knee)), out.near_knee);  // as many as searches
      }
    }
    if (const auto text = need.saturated ? load(policy, "-saturated") : std::nullopt) {
      take_seeds(stored_saturated(*text), out.saturated);
    }
    if (const auto text = need.fixed_rate ? load(policy, "-fixed") : std::nullopt) {
      take_seeds(stored_fixed(*text), out.fixed);
    }
  }

  // The scenario under every seed that something is still to be done under, plans made, batches let go.
  void prepare() {
    std::vector<std::string> labels;
    bool lacking = false;
    for (const auto& [policy, need] : needs_) {
      labels.push_back(policy);
      lacking = lacking || lacks_any(policy, need);
    }
    const std::size_t wanted = lacking ? seeds() : 1;
    by_seed_.reserve(wanted);  // subjects point into it
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
    if (seed > 0 && !lacks_any(policy.label, needs_.find(policy.label)->second)) {
      return;
    }
    auto prepared = std::make_shared<const PreparedRun>(prepare_run(s, policy));
    if (seed == 0) {
      describe_plan(prepared->last(), s.plan_window, of(policy.label));
    }
    subjects_[policy.label].push_back(subject_of(s, std::move(prepared), static_cast<int>(seed), control_));
    subjects_[policy.label].back().longer = {};  // the study states how many requests a rate takes
  }

  // Setups run side by side already; a thread that waits here must not begin another one inside this one. The more
  // copies, the fewer requests in a step, and the more steps.
  template <class Task>
  void for_each_policy(const Task& task) {
    std::vector<std::pair<std::string, PolicyNeed>> all(needs_.begin(), needs_.end());
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return of(a.first).copies_per_gpu > of(b.first).copies_per_gpu;
    });
    tbb::this_task_arena::isolate(
        [&] { begin_in_order(all.size(), [&](std::size_t i) { task(all[i].first, all[i].second); }); });
  }

  void search(const std::string& policy, const PolicyNeed& need) {
    if (!lacks_searches(policy, need)) {
      return;
    }
    PolicySearch found = NearKneeSearch().run(subjects_.find(policy)->second, options_.goodput);
    save(policy, "", found);
    of(policy).searches = std::move(found.by_seed);
    of(policy).near_knee = std::move(found.near_knee);
  }

  void saturate(const std::string& policy, const PolicyNeed& need) {
    if (!lacks_saturated(policy, need)) {
      return;
    }
    for (const GoodputSubject& subject : subjects_.find(policy)->second) {
      of(policy).saturated.push_back(run_saturated(subject, setup_.nodes()));
    }
    save(policy, "-saturated", of(policy).saturated);
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
  FixedRate run_fixed_rate(const GoodputSubject& subject, const GoodputSearch& lowest) {
    const double rate = kNearSaturation * lowest.knee.rate;
    const auto enough = static_cast<std::size_t>(options_.goodput.min_requests_ratio * lowest.best.concurrency);
    const RequestTrace trace = at_rate(first_of(*subject.trace, std::max(enough, kLeastRequests)), rate);
    return {rate, measure_probe(serve_whole(subject, trace), rate, options_.goodput).ttft_s.mean};
  }

  void serve_fixed_rate(const std::string& policy, const PolicyNeed& need) {
    if (!lacks_fixed(policy, need)) {
      return;
    }
    const std::vector<GoodputSubject>& subjects = subjects_.find(policy)->second;
    for (std::size_t k = 0; k < subjects.size(); ++k) {
      of(policy).fixed.push_back(run_fixed_rate(subjects[k], lowest_search(k)));
    }
    save(policy, "-fixed", of(policy).fixed);
  }

  const CraftSetup& setup_;
  const SetupNeeds& needs_;
  const CraftStudyOptions& options_;
  CraftStore* store_;
  RunControl control_;
  SetupEvidence out_;
  std::vector<Scenario> by_seed_;
  std::map<std::string, std::vector<GoodputSubject>, std::less<>> subjects_;  // [policy][seed]
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
  CraftEvidence out;
  for (const auto& [name, unused] : by_setup) {
    names.push_back(name);
    out[name];
  }
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return craft_setup(a).nodes() < craft_setup(b).nodes();  // the fewer, the fewer requests in a step
  });
  std::mutex turn;
  begin_in_order(names.size(), [&](std::size_t i) {
    out.find(names[i])->second = gather_setup(craft_setup(names[i]), by_setup.at(names[i]), options, control);
    const std::lock_guard lock(turn);
    if (control.on_setup) {
      control.on_setup(names[i], names.size());
    }
  });
  return out;
}

}  // namespace epsim
