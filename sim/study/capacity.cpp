#include "sim/study/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_chain.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/job_runner.h"

namespace epsim {
namespace {

// What one kind of node gives.
struct NodeResult {
  std::vector<CapacityRow> rows;
  std::vector<CapacityOption> options, close;
};

std::vector<CapacityDesign> layouts_of(const CapacityQuestion& question, const std::string& node, InstanceRole role) {
  std::vector<CapacityDesign> out;
  std::copy_if(question.layouts.begin(), question.layouts.end(), std::back_inserter(out),
               [&](const CapacityDesign& d) { return d.node == node && d.role == role; });
  return out;
}

template <class T>
void append(std::vector<T>& all, std::vector<T> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

void search_whole(CapacityRuns& runs, const std::string& node, NodeResult& out) {
  const CapacityQuestion& question = runs.question();
  ChainResult chain = CapacityChain(runs, {question.most_nodes, "all nodes allowed"})
                          .search(layouts_of(question, node, InstanceRole::kWhole), question.policies);
  append(out.rows, std::move(chain.rows));
  append(out.close, std::move(chain.close));
  if (chain.best) {
    out.options.push_back({{*chain.best}, question.spare, chain.alone, chain.answer, {}, {}});
  }
}

// A deployment runs one policy, so the prefill instances are counted for each, and the decode ones beside them;
// likewise for what else all of its instances share.
void search_apart(CapacityRuns& runs, const std::string& node, NodeResult& out) {
  const CapacityQuestion& question = runs.question();
  const std::vector<CapacityDesign> prefill = layouts_of(question, node, InstanceRole::kPrefill);
  const std::vector<CapacityDesign> decode = layouts_of(question, node, InstanceRole::kDecode);
  if (prefill.empty() || decode.empty()) {
    return;
  }
  // Nodes of a kind cost alike: where one pool holds, two must do with fewer.
  NodeLimit limit{question.most_nodes, "all nodes allowed"};
  for (const CapacityOption& together : out.options) {
    limit = {together.nodes() - 1, "fewer nodes than with prefill and decode together"};
  }
  Feeders feeders;
  for (std::vector<CapacityDesign> rest = prefill; !rest.empty();) {
    const CapacityDesign first = rest.front();
    const auto alike = std::stable_partition(rest.begin(), rest.end(),
                                             [&](const CapacityDesign& d) { return !go_together(d, first); });
    for (const std::string& policy : question.policies) {
      ChainResult chain = CapacityChain(runs, {limit.nodes - 1, limit.words}).search({alike, rest.end()}, {policy});
      append(out.rows, std::move(chain.rows));
      if (chain.best) {
        feeders.push_back(*chain.best);
      }
    }
    rest.erase(alike, rest.end());
  }
  ChainResult chain = CapacityChain(runs, limit, feeders).search(decode, question.policies);
  append(out.rows, std::move(chain.rows));
  append(out.close, std::move(chain.close));
  if (chain.best) {
    const auto feeder = std::find_if(feeders.begin(), feeders.end(), [&](const CapacityPool& pool) {
      return pool.design.policy == chain.best->design.policy && go_together(pool.design, chain.best->design);
    });
    out.options.push_back({{*feeder, *chain.best}, question.spare, chain.alone, chain.answer, {}, {}});
  }
}

bool holds(const CapacityAnswer& answer) { return answer.refused.empty() && answer.point.slo.holds; }

// Every value that is named must be one that some design can have: throws the InputError of the first where none can. A
// design that does not go together is a row of the ledger; a name that means nothing is not.
void check_values(const CapacityQuestion& question) {
  std::vector<CapacityDesign> tried;
  const auto check = [&](const auto& has) {
    std::exception_ptr first;
    for (const CapacityDesign& layout : question.layouts) {
      for (const std::string& policy : question.policies) {
        CapacityDesign design = layout;
        design.policy = policy;
        if (!has(design)) {
          continue;
        }
        std::vector<CapacityPool> pools(design.role == InstanceRole::kWhole ? 1 : 2, {design, 1});
        try {
          read_scenario(capacity_scenario(question, pools), {policy});
          return;
        } catch (const InputError&) {
          first = first ? first : std::current_exception();
        }
      }
    }
    if (first) {
      std::rethrow_exception(first);
    }
  };
  for (const std::string& policy : question.policies) {
    check([&](const CapacityDesign& d) { return d.policy == policy; });
  }
  for (const CapacityDesign& layout : question.layouts) {
    const auto alike = [&](const CapacityDesign& d) { return go_together(d, layout); };
    if (std::none_of(tried.begin(), tried.end(), alike)) {
      tried.push_back(layout);
      check(alike);
    }
  }
}

// The worst value / allowed, as a logarithm; of what is overloaded nothing bounds it.
double times_missed(const CapacityAnswer& answer) {
  const double excess = answer.point.slo.excess;
  return excess > 0 ? excess : std::numeric_limits<double>::infinity();
}

// Every node of every instance at such a share of its speed.
std::string all_at_speed(const std::vector<CapacityPool>& pools, double speed) {
  std::vector<std::string> faults;
  int instance = 0;
  for (const CapacityPool& pool : pools) {
    for (int i = 0; i < pool.instances; ++i, ++instance) {
      for (int node = 0; node < pool.design.nodes; ++node) {
        faults.push_back(
            fmt::format("{{at: 0s, instance: {}, node: {}, speed: {}, link_speed: {}}}", instance, node, speed, speed));
      }
    }
  }
  return fmt::format("faults=[{}]", fmt::join(faults, ", "));
}

// Growth of the demand, an instance less, slower steps. Where loads are epsim init's, another skew of them, too, with
// plans from those that were expected: the hottest expert's excess over the mean half again as large, and none.
std::vector<CapacityWhatIf> what_ifs_of(const CapacityQuestion& question, const std::vector<CapacityPool>& one,
                                        int instances) {
  std::vector<CapacityWhatIf> out;
  for (const double growth : {0.1, 0.2, 0.3, 0.5, 0.75, 1.0}) {
    out.push_back({fmt::format("demand +{:.0f} %", 100 * growth), growth, instances, "", {}});
  }
  if (instances > 1 && question.spare == 0) {  // with spare ones the demand is still held by as many
    out.push_back({"an instance lost", 0, instances - 1, "", {}});
  }
  out.push_back({std::string(kSlower), 0, instances, all_at_speed(one, 1 / (1 + kStepError)), {}});
  const bool own = std::any_of(question.settings.begin(), question.settings.end(),
                               [](const std::string& setting) { return setting.starts_with("loads"); });
  if (!own && !question.dense) {  // 1.5 and 4 times the mean
    out.push_back({"experts half again as skewed",
                   0,
                   instances,
                   "loads={kind: skew, low: 1.75, high: 5.5, high_share: 0.3}",
                   {}});
    out.push_back({"experts loaded evenly", 0, instances, "loads={kind: uniform}", {}});
  }
  return out;
}

// Whether a whole deployment fails for its prefill instances, by their prompts.
bool short_of_prefill(const CapacityQuestion& question, const CapacityOption& option) {
  const SloScore& score = option.whole->point.slo;
  return option.pools.size() > 1 && score.excess > 0 &&
         question.options.slo.terms[static_cast<std::size_t>(score.limit)].metric == LatencyMetric::kTtft;
}

}  // namespace

std::optional<CapacityRow> nearest_of(const std::vector<CapacityRow>& rows) {
  const CapacityRow* out = nullptr;
  for (const CapacityRow& row : rows) {
    const bool told = row.answer && row.answer->refused.empty() && !row.answer->point.slo.holds;
    if (told && (out == nullptr || times_missed(*row.answer) < times_missed(*out->answer))) {
      out = &row;
    }
  }
  return out == nullptr ? std::nullopt : std::optional(*out);
}

std::set<std::filesystem::path> input_files_of(const CapacityQuestion& question) {
  std::set<std::filesystem::path> out;
  std::set<std::string> read;
  for (CapacityDesign design : question.layouts) {
    if (read.contains(design.node)) {
      continue;
    }
    design.policy = question.policies.front();
    try {
      const std::vector<CapacityPool> pools(design.role == InstanceRole::kWhole ? 1 : 2, {design, 1});
      const Scenario scenario = read_scenario(capacity_scenario(question, pools), {design.policy});
      out.insert(scenario.input_files.begin(), scenario.input_files.end());
      read.insert(design.node);
    } catch (const InputError&) {
      // Another layout of its kind of node may do; the search says why this one does not.
    }
  }
  return out;
}

namespace {

CapacityStudy search_with(CapacityRuns& runs) {
  const CapacityQuestion& question = runs.question();
  check_values(question);
  std::vector<std::string> nodes;
  for (const CapacityDesign& layout : question.layouts) {
    if (std::find(nodes.begin(), nodes.end(), layout.node) == nodes.end()) {
      nodes.push_back(layout.node);
    }
  }
  std::vector<NodeResult> results(nodes.size());
  const JobStore* store = runs.control().store;
  const Shard shard = store != nullptr ? store->shard() : Shard{};
  run_jobs(jobs_of(shard, results.size()), {.stop = runs.control().stop}, [&](std::size_t i, const Abandoned&) {
    search_whole(runs, nodes[i], results[i]);
    search_apart(runs, nodes[i], results[i]);
  });
  if (!shard.whole()) {
    throw ShardFinished();
  }
  CapacityStudy out;
  for (NodeResult& result : results) {
    append(out.rows, std::move(result.rows));
    append(out.options, std::move(result.options));
    append(out.close, std::move(result.close));
  }
  for (auto* deployments : {&out.options, &out.close}) {
    for (CapacityOption& option : *deployments) {
      if (const CapacityAnswer* whole = runs.whole(option.pools)) {
        option.whole = *whole;
      }
    }
  }
  if (out.options.empty()) {
    out.nearest = nearest_of(out.rows);
  }
  out.runs = runs.runs();
  return out;
}

// What is to be run as a whole next: what is cheapest, and all that misses narrowly and would cost less.
std::vector<CapacityOption> to_check(const CapacityPlan& plan) {
  std::vector<CapacityOption> out;
  const auto cost = [&](const CapacityOption& option) {
    const CapacityCost c = cost_of(option, plan.rate, plan.prices);
    return std::tuple(!c.price, c.usd_per_hour, c.nodes);
  };
  if (plan.feasible && !plan.study.options[plan.order.front()].whole) {
    out.push_back(plan.study.options[plan.order.front()]);
  }
  for (const CapacityOption& close : plan.study.close) {
    if (!close.whole && within_budget(plan, cost_of(close, plan.rate, plan.prices)) &&
        (!plan.feasible || cost(close) < cost(plan.study.options[plan.order.front()]))) {
      out.push_back(close);
    }
  }
  return out;
}

// One instance of the last pool, beside its share of those before.
std::vector<CapacityPool> one_of(std::vector<CapacityPool> pools) {
  const int instances = pools.back().instances;
  for (CapacityPool& pool : pools) {
    pool.instances = (pool.instances + instances - 1) / instances;
  }
  return pools;
}

// Its verdict as a whole; of what missed narrowly, first that of an instance with more requests, which may be final.
void check_option(CapacityRuns& runs, CapacityOption& option) {
  if (const int instances = option.pools.back().instances; !holds(option.answer) && instances > 1) {
    const CapacityAnswer longer = runs.ask(one_of(option.pools), instances, option.alone, AskedFor::kLong);
    if (!holds(longer) && !misses_narrowly(longer, runs.question().options.slo)) {
      option.whole = longer;
      return;
    }
  }
  option.whole = runs.ask(option.pools, 1, option.alone, AskedFor::kDeployment);
}

// The what-ifs of an option whose names `wanted` has.
template <class Wanted>
void ask_what_ifs(CapacityRuns& runs, const std::atomic<bool>* stop, CapacityOption& option, const Wanted& wanted) {
  const std::vector<CapacityPool> one = one_of(option.pools);
  for (CapacityWhatIf& asked : what_ifs_of(runs.question(), one, option.pools.back().instances)) {
    if (wanted(asked)) {
      option.what_ifs.push_back(std::move(asked));
    }
  }
  run_jobs(all_jobs(option.what_ifs.size()), {.stop = stop}, [&](std::size_t i, const Abandoned&) {
    CapacityWhatIf& asked = option.what_ifs[i];
    std::vector<CapacityPool> pools = one;
    for (CapacityPool& pool : pools) {
      if (!asked.setting.empty()) {
        pool.design.settings.push_back(asked.setting);
      }
    }
    asked.answer = runs.ask(pools, asked.instances, option.alone, AskedFor::kInstance, asked.growth);
  });
}

// What the recommended deployment does in other conditions, and its highest rate. The others are asked where it fails,
// if they cost less than it with an instance more.
void examine(CapacityRuns& runs, const std::atomic<bool>* stop, CapacityPlan& plan) {
  const CapacityQuestion& question = runs.question();
  CapacityOption& first = plan.study.options[plan.order.front()];
  ask_what_ifs(runs, stop, first,
               [&](const CapacityWhatIf& asked) { return question.check_whole || asked.what == kSlower; });
  if (question.seeds > 0) {
    first.searches = runs.search(one_of(first.pools), first.pools.back().instances);
  }
  CapacityOption more = first;
  ++more.pools.back().instances;
  const CapacityCost limit = cost_of(more, plan.rate, plan.prices);
  for (std::size_t i = 1; question.check_whole && i < plan.order.size(); ++i) {
    if (plan.costs[plan.order[i]].usd_per_hour < limit.usd_per_hour) {
      ask_what_ifs(runs, stop, plan.study.options[plan.order[i]], [&](const CapacityWhatIf& asked) {
        return std::any_of(first.what_ifs.begin(), first.what_ifs.end(),
                           [&](const CapacityWhatIf& own) { return own.what == asked.what && !holds(own.answer); });
      });
    }
  }
}

}  // namespace

CapacityStudy search_capacity(const CapacityQuestion& question, const CapacityControl& control) {
  CapacityRuns runs(question, control);
  return search_with(runs);
}

void answer_capacity(CapacityPlan& plan, const CapacityQuestion& question, const CapacityControl& control) {
  CapacityRuns runs(question, control);
  plan.study = search_with(runs);
  decide(plan);
  // Each round adds verdicts of whole deployments, of which there are finitely many.
  for (std::vector<CapacityOption> options = to_check(plan); question.check_whole && !options.empty();
       options = to_check(plan)) {
    run_jobs(all_jobs(options.size()), {.stop = control.stop},
             [&](std::size_t i, const Abandoned&) { check_option(runs, options[i]); });
    for (const CapacityOption& option : options) {
      runs.set_whole(option.pools, *option.whole);
      if (holds(option.answer) && !holds(*option.whole) && short_of_prefill(question, option)) {
        runs.set_whole({option.pools.front()}, *option.whole);
      }
    }
    plan.study = search_with(runs);
    decide(plan);
  }
  if (plan.feasible) {
    examine(runs, control.stop, plan);
  }
}

std::vector<PlannedPool> plans_of(const CapacityQuestion& question, const CapacityOption& option) {
  const Scenario scenario =
      read_scenario(capacity_scenario(question, option.pools), {option.pools.front().design.policy});
  std::vector<PlannedPool> out;
  for (const PreparedInstance& pool : prepare_run(scenario, scenario.policies.front()).pools) {
    const Transport transport = pool.pool.dispatch.network.transport;
    out.push_back({pool.plan, scenario.model.moe_layer_numbers(), scenario.model.layers,
                   transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency});
  }
  return out;
}

std::string scenario_of(const CapacityQuestion& question, const CapacityOption& option) {
  std::vector<CapacityPool> pools = option.pools;
  for (CapacityPool& pool : pools) {
    pool.instances += option.spare;
  }
  const CapacityDesign& first = option.pools.front().design;
  const std::string shared =
      first.per_node > 1
          ? fmt::format("# {} instances share a {}: each stands here as a node of its own with {} of the GPUs.\n",
                        first.per_node, first.node, first.gpus)
          : "";
  return shared + read_scenario(capacity_scenario(question, pools), {}).resolved;
}

}  // namespace epsim
