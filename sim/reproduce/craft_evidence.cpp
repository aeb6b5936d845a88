#include "sim/reproduce/craft_evidence.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>

#include "sim/core/check.h"
#include "sim/serving/probe.h"
#include "sim/serving/run_policy.h"

namespace epsim {
namespace {

// Near the knee, but below it under most seeds; a third of the requests tell a mean well enough.
constexpr double kNearKnee = 0.97;
constexpr std::size_t kPartOfTrace = 3;

struct PolicyNeed {
  EvidenceLevel level = EvidenceLevel::kPlan;
  bool fixed_rates = false;
};
using SetupNeeds = std::map<std::string, PolicyNeed>;  // base sorts first, which fixed rates rely on

const CraftSetup& setup_named(std::string_view name) {
  const auto setups = craft_setups();
  const auto found = std::find_if(setups.begin(), setups.end(), [&](const CraftSetup& s) { return s.name == name; });
  EPSIM_CHECK(found != setups.end(), "claims name setups that exist");
  return *found;
}

std::vector<LayerSkew> skew_of(const LoadWindow& window, const MoeSpec& model) {
  std::vector<LayerSkew> out;
  for (int l = 0; l < window.layers(); ++l) {
    std::vector<double> row(window.layer(l).begin(), window.layer(l).end());
    std::partial_sort(row.begin(), row.begin() + 2, row.end(), std::greater<>());
    const double total = window.total(l);
    out.push_back({model.moe_layer_numbers()[static_cast<std::size_t>(l)], row[0] * window.experts() / total,
                   (row[0] + row[1]) / total});
  }
  return out;
}

// The window without its batches, which only planning needs: they are most of a scenario's memory.
LoadWindow summed(const LoadWindow& window) {
  LoadWindow out(window.layers(), window.experts());
  for (int l = 0; l < out.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), out.layer(l).begin());
  }
  return out;
}

void describe_window(const Scenario& s, SetupEvidence& out) {
  out.experts = s.model.experts;
  out.gpus = s.cluster.gpus();
  out.moe_layers = s.model.moe_layers();
  out.skew = skew_of(s.plan_window, s.model);
  out.batches = s.plan_window.batches();
  out.resolved = s.resolved;
  const auto from = std::chrono::steady_clock::now();
  out.gains = estimate_gains(s.plan_window, CraftLayout::global(out.gpus), {});
  out.estimate_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

void describe_plan(const PreparedRun& run, const LoadWindow& window, PolicyEvidence& out) {
  out.copies_per_gpu = run.plan.copies_on_fullest_gpu();
  out.kv_lost = run.memory.copies_loss;
  out.kv_pool_gib = to_gib(run.memory.kv_pool);
  out.planned = balancedness_by_layer(run.placement, window);
}

// The requests of a shorter run at `rate`.
RequestTrace part_at(const GoodputSubject& subject, double rate) {
  return at_rate(first_of(*subject.trace, subject.trace->requests.size() / kPartOfTrace), rate);
}

NearKnee run_near_knee(const GoodputSubject& subject, double knee) {
  NearKnee out;
  out.rate = kNearKnee * knee;
  const RunResult run = subject.serve(part_at(subject, out.rate));
  if (run.interrupted) {
    throw SearchInterrupted();
  }
  out.itl_mean_s = run.latency.itl_s.mean;
  for (const LayerTotals& layer : run.detail.layers) {
    out.balancedness += layer.balancedness_sum / static_cast<double>(run.steps * std::ssize(run.detail.layers));
  }
  for (std::size_t p = 0; p < out.part_share.size(); ++p) {
    out.part_share[p] = run.time.by_part[p] / run.time.total;
  }
  out.kv_full_share = run.kv.time_full_share;
  out.extrapolated_share = run.time.by_origin[static_cast<std::size_t>(Origin::kExtrapolated)] / run.time.total;
  return out;
}

std::vector<FixedRate> run_fixed_rates(const GoodputSubject& subject, double base_knee,
                                       const CraftStudyOptions& options) {
  std::vector<FixedRate> out;
  for (const double share : options.fixed_rates) {
    const double rate = share * base_knee;
    const RunResult run = subject.serve(part_at(subject, rate));
    if (run.interrupted) {
      throw SearchInterrupted();
    }
    out.push_back({share, rate, measure_probe(run, rate, options.goodput).ttft_mean_s});
  }
  return out;
}

int seeds_of(const SetupNeeds& needs, int seeds) {
  return std::any_of(needs.begin(), needs.end(),
                     [](const auto& need) { return need.second.level == EvidenceLevel::kAllSeeds; })
             ? seeds
             : 1;
}

// The scenario under every seed, plans made, batches let go.
struct PreparedSetup {
  std::vector<Scenario> by_seed;
  std::vector<GoodputSubject> subjects;  // [policy][seed] of those that are searched
};

PreparedSetup prepare_setup(const CraftSetup& setup, const SetupNeeds& needs, const CraftStudyOptions& options,
                            const RunControl& control, SetupEvidence& out) {
  PreparedSetup ready;
  const int seeds = seeds_of(needs, options.seeds);
  std::vector<std::string> labels;
  for (const auto& [policy, need] : needs) {
    labels.push_back(policy);
  }
  ready.by_seed.reserve(static_cast<std::size_t>(seeds));  // subjects point into it
  std::vector<std::vector<GoodputSubject>> of_policy(labels.size());
  for (int k = 0; k < seeds; ++k) {
    std::vector<std::string> overrides = options.overrides;
    if (k > 0) {
      overrides.push_back("seed=" + std::to_string(static_cast<std::uint64_t>(ready.by_seed.front().seed) + k));
    }
    Scenario& s = ready.by_seed.emplace_back(craft_scenario(setup, options.memory, overrides, labels));
    if (k == 0) {
      describe_window(s, out);
    }
    for (std::size_t p = 0; p < labels.size(); ++p) {
      const EvidenceLevel level = needs.at(labels[p]).level;
      if (k > 0 && level != EvidenceLevel::kAllSeeds) {
        continue;
      }
      auto prepared = std::make_shared<const PreparedRun>(prepare_run(s, s.policies[p]));
      if (k == 0) {
        describe_plan(*prepared, s.plan_window, out.policies[labels[p]]);
      }
      if (level != EvidenceLevel::kPlan) {
        of_policy[p].push_back(subject_of(s, s.policies[p], std::move(prepared), k, control));
      }
    }
    s.plan_window = summed(s.plan_window);
  }
  for (std::vector<GoodputSubject>& subjects : of_policy) {
    std::move(subjects.begin(), subjects.end(), std::back_inserter(ready.subjects));
  }
  return ready;
}

SetupEvidence gather_setup(const CraftSetup& setup, const SetupNeeds& needs, const CraftStudyOptions& options,
                           const RunControl& control) {
  SetupEvidence out;
  const PreparedSetup ready = prepare_setup(setup, needs, options, control, out);
  std::vector<GoodputSearch> searches;
  // Setups run side by side already; a thread that waits here must not begin another one inside this one.
  tbb::this_task_arena::isolate([&] { searches = search_all(ready.subjects, options.goodput, {}); });
  double base_knee = 0;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    const GoodputSubject& subject = ready.subjects[i];
    PolicyEvidence& policy = out.policies[subject.policy];
    if (subject.seed_index == 0) {
      policy.near_knee = run_near_knee(subject, searches[i].knee.rate);
      base_knee = subject.policy == "base" ? searches[i].knee.rate : base_knee;
      if (needs.at(subject.policy).fixed_rates) {
        EPSIM_CHECK(base_knee > 0, "base is searched before the policies that are compared with it");
        policy.fixed = run_fixed_rates(subject, base_knee, options);
      }
    }
    policy.searches.push_back(std::move(searches[i]));
  }
  return out;
}

}  // namespace

const PolicyEvidence& SetupEvidence::of(std::string_view policy) const {
  const auto found = policies.find(policy);
  EPSIM_CHECK(found != policies.end(), "a claim uses only the evidence it asked for");
  return found->second;
}

CraftEvidence gather_craft_evidence(std::span<const CraftNeed> needs, const CraftStudyOptions& options,
                                    const std::atomic<bool>* stop,
                                    const std::function<void(const std::string&, std::size_t)>& on_setup) {
  std::map<std::string, SetupNeeds> by_setup;
  for (const CraftNeed& need : needs) {
    PolicyNeed& asked = by_setup[std::string(need.setup)][std::string(need.policy)];
    asked.level = std::max(asked.level, need.level);
    asked.fixed_rates = asked.fixed_rates || need.fixed_rates;
  }
  std::vector<std::string> names;
  CraftEvidence out;
  for (const auto& [name, unused] : by_setup) {
    names.push_back(name);
    out[name];
  }
  RunControl control;
  control.stop = stop;
  std::mutex turn;
  tbb::parallel_for(std::size_t{0}, names.size(), [&](std::size_t i) {
    out.at(names[i]) = gather_setup(setup_named(names[i]), by_setup.at(names[i]), options, control);
    const std::lock_guard lock(turn);
    on_setup(names[i], names.size());
  });
  return out;
}

}  // namespace epsim
