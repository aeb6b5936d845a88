#include "sim/study/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <utility>

#include "sim/cluster/prepare.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_chain.h"
#include "sim/study/job_runner.h"

namespace epsim {
namespace {

constexpr int kMostGrowth = 8;  // instances that a whole deployment may need more than its parts

// What one kind of node gives.
struct NodeResult {
  std::vector<CapacityRow> rows;
  std::vector<CapacityOption> options;
};

std::vector<CapacityDesign> layouts_of(const CapacityQuestion& question, const std::string& node, InstanceRole role) {
  std::vector<CapacityDesign> out;
  std::copy_if(question.layouts.begin(), question.layouts.end(), std::back_inserter(out),
               [&](const CapacityDesign& d) { return d.node == node && d.role == role; });
  return out;
}

void append(std::vector<CapacityRow>& all, std::vector<CapacityRow> rows) {
  std::move(rows.begin(), rows.end(), std::back_inserter(all));
}

void search_whole(CapacityRuns& runs, const CapacityQuestion& question, const std::string& node, NodeResult& out) {
  ChainResult chain = CapacityChain(runs, question, {question.most_nodes, "the most nodes"})
                          .search(layouts_of(question, node, InstanceRole::kWhole), question.policies);
  append(out.rows, std::move(chain.rows));
  if (chain.best) {
    out.options.push_back({{*chain.best}, question.spare, chain.alone, chain.answer, {}, 0, {}});
  }
}

// A deployment runs one policy, so the prefill instances are counted for each, and the decode ones beside them;
// likewise for what else all of its instances share.
void search_apart(CapacityRuns& runs, const CapacityQuestion& question, const std::string& node, NodeResult& out) {
  const std::vector<CapacityDesign> prefill = layouts_of(question, node, InstanceRole::kPrefill);
  const std::vector<CapacityDesign> decode = layouts_of(question, node, InstanceRole::kDecode);
  if (prefill.empty() || decode.empty()) {
    return;
  }
  // Nodes of a kind cost alike: where one pool holds, two must do with fewer.
  NodeLimit limit{question.most_nodes, "the most nodes"};
  for (const CapacityOption& together : out.options) {
    limit = {together.nodes() - 1, "fewer nodes than with prefill and decode together"};
  }
  Feeders feeders;
  for (std::vector<CapacityDesign> rest = prefill; !rest.empty();) {
    const CapacityDesign first = rest.front();
    const auto alike = std::stable_partition(rest.begin(), rest.end(),
                                             [&](const CapacityDesign& d) { return !go_together(d, first); });
    for (const std::string& policy : question.policies) {
      ChainResult chain = CapacityChain(runs, question, {limit.nodes - 1, limit.words}).search({alike, rest.end()}, {policy});
      append(out.rows, std::move(chain.rows));
      if (chain.best) {
        feeders.push_back(*chain.best);
      }
    }
    rest.erase(alike, rest.end());
  }
  ChainResult chain = CapacityChain(runs, question, limit, feeders).search(decode, question.policies);
  append(out.rows, std::move(chain.rows));
  if (chain.best) {
    const auto feeder = std::find_if(feeders.begin(), feeders.end(), [&](const CapacityPool& pool) {
      return pool.design.policy == chain.best->design.policy && go_together(pool.design, chain.best->design);
    });
    out.options.push_back({{*feeder, *chain.best}, question.spare, chain.alone, chain.answer, {}, 0, {}});
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

// Growth of the demand. Where loads are epsim init's, another skew of them, too, with plans from those that were
// expected: the hottest expert's excess over the mean half again as large, and none.
std::vector<CapacityWhatIf> what_ifs_of(const CapacityQuestion& question) {
  std::vector<CapacityWhatIf> out;
  for (const double growth : {0.1, 0.2, 0.3, 0.5, 0.75, 1.0}) {
    out.push_back({fmt::format("demand +{:.0f} %", 100 * growth), growth, "", {}});
  }
  const bool own = std::any_of(question.settings.begin(), question.settings.end(),
                               [](const std::string& setting) { return setting.starts_with("loads"); });
  if (!own) {  // 1.5 and 4 times the mean
    out.push_back({"experts half again as skewed", 0, "loads={kind: skew, low: 1.75, high: 5.5, high_share: 0.3}", {}});
    out.push_back({"experts loaded evenly", 0, "loads={kind: uniform}", {}});
  }
  return out;
}

// The pool that what fails first asks to grow: prefill instances for prompts, decode ones for the rest.
CapacityPool& short_pool(const CapacityQuestion& question, const CapacityAnswer& answer,
                         std::vector<CapacityPool>& pools) {
  const LoadPoint& p = answer.point;
  const bool prompts = p.slo.excess > 0 &&
                       question.options.slo.terms[static_cast<std::size_t>(p.slo.limit)].metric == LatencyMetric::kTtft;
  return prompts ? pools.front() : pools.back();
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

CapacityStudy search_capacity(const CapacityQuestion& question, const CapacityControl& control) {
  check_values(question);
  std::vector<std::string> nodes;
  for (const CapacityDesign& layout : question.layouts) {
    if (std::find(nodes.begin(), nodes.end(), layout.node) == nodes.end()) {
      nodes.push_back(layout.node);
    }
  }
  CapacityRuns runs(question, control);
  std::vector<NodeResult> results(nodes.size());
  const Shard shard = control.store != nullptr ? control.store->shard() : Shard{};
  run_jobs(jobs_of(shard, results.size()), {.stop = control.stop}, [&](std::size_t i, const Abandoned&) {
    search_whole(runs, question, nodes[i], results[i]);
    search_apart(runs, question, nodes[i], results[i]);
  });
  if (!shard.whole()) {
    throw ShardFinished();
  }
  CapacityStudy out;
  for (NodeResult& result : results) {
    append(out.rows, std::move(result.rows));
    std::move(result.options.begin(), result.options.end(), std::back_inserter(out.options));
  }
  if (out.options.empty()) {
    out.nearest = nearest_of(out.rows);
  }
  out.runs = runs.runs();
  return out;
}

void check_option(const CapacityQuestion& question, const CapacityControl& control, CapacityOption& option) {
  CapacityRuns runs(question, control);
  const auto whole = [&](const std::vector<CapacityPool>& pools) {
    return runs.ask(pools, question.rate, option.alone, AskedFor::kDeployment);
  };
  option.whole = whole(option.pools);
  for (; !holds(*option.whole) && option.whole->refused.empty() && option.grown < kMostGrowth; ++option.grown) {
    ++short_pool(question, *option.whole, option.pools).instances;
    option.whole = whole(option.pools);
  }
  // A router smooths what arrives at each, so that fewer may do than one at its share tells.
  for (bool fewer = holds(*option.whole) && option.grown <= 0; fewer;) {
    fewer = false;
    for (std::size_t i = 0; i < option.pools.size() && !fewer; ++i) {
      std::vector<CapacityPool> pools = option.pools;
      if (--pools[i].instances == 0) {
        continue;
      }
      const CapacityAnswer answer = whole(pools);
      if (holds(answer)) {
        fewer = true;
        option.pools = pools;
        option.whole = answer;
        --option.grown;
      }
    }
  }
}

void examine_option(const CapacityQuestion& question, const CapacityControl& control, CapacityOption& option) {
  CapacityRuns runs(question, control);
  // One instance of the last pool, beside its share of those before.
  std::vector<CapacityPool> one = option.pools;
  const int instances = one.back().instances;
  for (CapacityPool& pool : one) {
    pool.instances = (pool.instances + instances - 1) / instances;
  }
  if (question.check_whole) {
    option.what_ifs = what_ifs_of(question);
    run_jobs(all_jobs(option.what_ifs.size()), {.stop = control.stop}, [&](std::size_t i, const Abandoned&) {
      CapacityWhatIf& asked = option.what_ifs[i];
      std::vector<CapacityPool> pools = one;
      for (CapacityPool& pool : pools) {
        if (!asked.setting.empty()) {
          pool.design.settings.push_back(asked.setting);
        }
      }
      asked.answer = runs.ask(pools, question.rate / instances * (1 + asked.growth), option.alone);
    });
  }
  if (question.seeds > 0) {
    option.searches = runs.search(one, question.rate / instances);
  }
}

namespace {

// The first by cost that is still to be run as a whole and that would cost less than the best with an instance fewer.
CapacityOption* option_to_check(CapacityPlan& plan) {
  const CapacityCost& best = plan.costs[plan.order.front()];
  for (const std::size_t i : plan.order) {
    CapacityOption& option = plan.study.options[i];
    int instance = 0;
    for (const CapacityPool& pool : option.pools) {
      instance = std::max(instance, pool.instances > 1 ? pool.design.nodes : 0);
    }
    const CapacityCost& cost = plan.costs[i];
    const bool first = i == plan.order.front();
    if (!option.whole && (first || cost.usd_per_hour * (cost.nodes - instance) < best.usd_per_hour * cost.nodes)) {
      return &option;
    }
  }
  return nullptr;
}

}  // namespace

void check_cheapest(CapacityPlan& plan, const CapacityQuestion& question, const CapacityControl& control) {
  decide(plan);
  while (question.check_whole && plan.feasible) {
    CapacityOption* option = option_to_check(plan);
    if (option == nullptr) {
      break;
    }
    check_option(question, control, *option);
    decide(plan);
  }
  if (plan.feasible) {
    examine_option(question, control, plan.study.options[plan.order.front()]);
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
  return read_scenario(capacity_scenario(question, pools), {}).resolved;
}

}  // namespace epsim
