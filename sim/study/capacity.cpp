#include "sim/study/capacity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "models/catalogue/model_catalogue.h"
#include "sim/cluster/prepare.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_chain.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/goodput.h"
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

// Whether a deployment fails for its prefill instances, by their prompts, where its decode instances hold by themselves.
bool short_of_prefill(const CapacityQuestion& question, const std::vector<CapacityPool>& pools,
                      const CapacityAnswer& answer) {
  const SloScore& score = answer.point.slo;
  return pools.size() > 1 && answer.refused.empty() && !score.holds && score.excess > 0 &&
         question.options.slo.terms[static_cast<std::size_t>(score.limit)].metric == LatencyMetric::kTtft;
}

// The answer of a share as that of its prefill instances, for their row.
CapacityAnswer of_prefill(CapacityAnswer answer, const DeploymentShare& share) {
  answer.instances = share.pools.front().instances;
  return answer;
}

// A deployment runs one policy, so the prefill instances are counted for each, and the decode ones beside them;
// likewise for what else all of its instances share.
NodeResult count_apart(CapacityRuns& runs, const std::string& node, const NodeLimit& limit,
                       const KnownFailures& failures) {
  const CapacityQuestion& question = runs.question();
  NodeResult out;
  Feeders feeders;
  for (std::vector<CapacityDesign> rest = layouts_of(question, node, InstanceRole::kPrefill); !rest.empty();) {
    const CapacityDesign first = rest.front();
    const auto alike = std::stable_partition(rest.begin(), rest.end(),
                                             [&](const CapacityDesign& d) { return !go_together(d, first); });
    for (const std::string& policy : question.policies) {
      ChainResult chain =
          CapacityChain(runs, {limit.nodes - 1, limit.words}, failures).search({alike, rest.end()}, {policy});
      append(out.rows, std::move(chain.rows));
      if (chain.best) {
        feeders.push_back(*chain.best);
      }
    }
    rest.erase(alike, rest.end());
  }
  ChainResult chain = CapacityChain(runs, limit, failures, feeders)
                          .search(layouts_of(question, node, InstanceRole::kDecode), question.policies);
  append(out.rows, std::move(chain.rows));
  append(out.close, std::move(chain.close));
  if (chain.best) {
    const auto feeder = std::find_if(feeders.begin(), feeders.end(), [&](const CapacityPool& pool) {
      return pool.design.policy == chain.best->design.policy && go_together(pool.design, chain.best->design);
    });
    out.options.push_back({{*feeder, *chain.best}, question.spare, chain.alone, chain.answer, {}, {}});
  }
  return out;
}

// Until prefill and decode instances that hold by themselves hold together, in their ratio, too.
void search_apart(CapacityRuns& runs, const std::string& node, NodeResult& out) {
  const CapacityQuestion& question = runs.question();
  if (layouts_of(question, node, InstanceRole::kDecode).empty()) {
    return;
  }
  // Nodes of a kind cost alike: where one pool holds, two must do with fewer, or draw less power.
  NodeLimit limit{question.most_nodes, "all nodes allowed"};
  for (const CapacityOption& together : out.options) {
    limit = question.power_counts
                ? NodeLimit{together.nodes(), "no more nodes than with prefill and decode together"}
                : NodeLimit{together.nodes() - 1, "fewer nodes than with prefill and decode together"};
  }
  KnownFailures failures;
  for (;;) {
    NodeResult counted = count_apart(runs, node, limit, failures);
    CapacityAnswer answer;
    if (!counted.options.empty()) {
      CapacityOption& option = counted.options.front();
      const DeploymentShare share = share_of(option.pools);
      answer = runs.whole(option.pools) != nullptr ? option.answer : runs.ask(share.pools, share.one_in, option.alone);
      if (!answer.holds()) {
        if (misses_narrowly(answer, question.options.slo)) {
          append(out.close, {option});
        }
        if (short_of_prefill(question, option.pools, answer)) {
          failures.add({option.pools.front()}, of_prefill(answer, share));
        } else {
          failures.add(option.pools, answer);
        }
        continue;
      }
      option.answer = answer;
      runs.found(option.pools);
    }
    for (CapacityRow& row : counted.rows) {
      if (row.status == CapacityStatus::kBest && row.design.role == InstanceRole::kDecode) {
        row.answer = answer;
      }
    }
    append(out.rows, std::move(counted.rows));
    append(out.options, std::move(counted.options));
    append(out.close, std::move(counted.close));
    return;
  }
}

// How far its latencies are above their bounds; of what is overloaded nothing bounds it.
double times_missed(const CapacityAnswer& answer, const Slo& slo) {
  return answer.point.slo.excess > 0 ? strain_of(answer.point, slo) : std::numeric_limits<double>::infinity();
}

// Every node of every instance, and the host that launches its kernels, at such a share of its speed.
std::vector<std::string> all_at_speed(const CapacityQuestion& question, const std::vector<CapacityPool>& pools,
                                      double speed) {
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
  const Scenario scenario = read_scenario(capacity_scenario(question, pools), {pools.front().design.policy});
  return {fmt::format("faults=[{}]", fmt::join(faults, ", ")),
          fmt::format("serving.launch_time={:.9g}us", to_us(scenario.serving.launch_time) / speed)};
}

// Growth of the demand, an instance less, slower steps. Where loads are epsim init's, another skew of them, too, with
// plans from those that were expected: the hottest expert's excess over the mean half again as large, and none.
std::vector<CapacityWhatIf> what_ifs_of(const CapacityQuestion& question, const CapacityOption& option) {
  std::vector<CapacityWhatIf> out;
  const auto add = [&](std::string what, double growth, DeploymentShare share,
                       const std::vector<std::string>& settings = {}) {
    for (CapacityPool& pool : share.pools) {
      pool.design.settings.insert(pool.design.settings.end(), settings.begin(), settings.end());
    }
    out.push_back({std::move(what), growth, std::move(share), {}});
  };
  const auto shared = [&](const std::vector<CapacityPool>& pools) {
    return option.whole && question.share_differs ? DeploymentShare{pools, 1} : share_of(pools);
  };
  const DeploymentShare all = shared(option.pools);
  for (const double growth : {0.1, 0.2, 0.3, 0.5, 0.75, 1.0}) {
    add(fmt::format("demand +{:.0f} %", 100 * growth), growth, all);
  }
  for (std::size_t p = 0; p < option.pools.size(); ++p) {  // with spare ones the demand is still held by as many
    std::vector<CapacityPool> less = option.pools;
    if (question.spare == 0 && --less[p].instances > 0) {
      add(fmt::format("{} instance lost", option.pools.size() == 1 ? "an"
                                          : p == 0                 ? "a prefill"
                                                                   : "a decode"),
          0, shared(less));
    }
  }
  add(std::string(kSlower), 0, all, all_at_speed(question, all.pools, 1 / (1 + kStepError)));
  const bool own = std::any_of(question.settings.begin(), question.settings.end(),
                               [](const std::string& setting) { return setting.starts_with("loads"); });
  if (!own && !question.dense) {
    const MoeSpec model = find_model(question.model);
    const Skew expected = init_skew(model), more = init_skew(model, 1.5);
    if (more.low > expected.low || more.high > expected.high) {
      add(more.high < 5.5 ? "experts as skewed as their number allows" : "experts half again as skewed", 0, all,
          {fmt::format("loads={{kind: skew, low: {}, high: {}, high_share: 0.3}}", more.low, more.high)});
    }
    add("experts loaded evenly", 0, all, {"loads={kind: uniform}"});
  }
  return out;
}

// Of a layout that the search chose, and no setting of the user's: the search says why it does not go on a node.
bool is_of_layout(const InputError& error, const CapacityQuestion& question, const CapacityDesign& design) {
  const std::string& key = error.place.key;
  const auto layouts = [](const std::string& setting) {
    return setting.starts_with("cluster") || setting.starts_with("parallelism");
  };
  return (layouts(key) || key.ends_with(".nodes")) && std::ranges::none_of(question.settings, layouts) &&
         std::ranges::none_of(design.settings, layouts);
}

}  // namespace

std::optional<CapacityRow> nearest_of(const std::vector<CapacityRow>& rows, const Slo& slo) {
  const CapacityRow* out = nullptr;
  for (const CapacityRow& row : rows) {
    const bool told = row.answer && row.answer->refused.empty() && !row.answer->point.slo.holds;
    if (told && (out == nullptr || times_missed(*row.answer, slo) < times_missed(*out->answer, slo))) {
      out = &row;
    }
  }
  return out == nullptr ? std::nullopt : std::optional(*out);
}

void check_values(const CapacityQuestion& question) {
  std::vector<CapacityDesign> tried;
  const auto check = [&](const auto& has) {
    std::exception_ptr first;
    for (const CapacityDesign& layout : question.layouts) {
      for (const std::string& policy : policies_of(layout, question.policies)) {
        CapacityDesign design = layout;
        design.policy = policy;
        if (!has(design)) {
          continue;
        }
        std::vector<CapacityPool> pools(design.role == InstanceRole::kWhole ? 1 : 2, {design, 1});
        try {
          check_lasting(read_scenario(capacity_scenario(question, pools), {policy}));
          return;
        } catch (const InputError& e) {
          first = first || is_of_layout(e, question, design) ? first : std::current_exception();
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

std::set<std::filesystem::path> input_files_of(const CapacityQuestion& question) {
  std::set<std::filesystem::path> out;
  std::set<std::string> read;
  for (CapacityDesign design : question.layouts) {
    if (read.contains(design.node)) {
      continue;
    }
    design.policy = policies_of(design, question.policies).front();
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
    out.nearest = nearest_of(out.rows, question.options.slo);
  }
  out.runs = runs.runs();
  return out;
}

// What is to be run as a whole next: what is cheapest, and all that misses narrowly and would cost less.
std::vector<CapacityOption> to_check(const CapacityPlan& plan) {
  std::vector<CapacityOption> out;
  const auto cost = [&](const CapacityOption& option) {
    const CapacityCost c = cost_of(option, plan);
    return std::tuple(!c.price, c.usd_per_hour, c.nodes);
  };
  if (plan.feasible && !plan.study.options[plan.order.front()].whole) {
    out.push_back(plan.study.options[plan.order.front()]);
  }
  for (const CapacityOption& close : plan.study.close) {
    if (!close.whole && within_budget(plan, cost_of(close, plan)) &&
        (!plan.feasible || cost(close) < cost(plan.study.options[plan.order.front()]))) {
      out.push_back(close);
    }
  }
  return out;
}

// Its verdict as a whole; of what missed narrowly, first that of its share with more requests, which may be final.
void check_option(CapacityRuns& runs, CapacityOption& option) {
  if (const DeploymentShare share = share_of(option.pools); !option.answer.holds() && share.one_in > 1) {
    const CapacityAnswer longer = runs.ask(share.pools, share.one_in, option.alone, AskedFor::kLong);
    if (!longer.holds() && !misses_narrowly(longer, runs.question().options.slo)) {
      option.whole = longer;
      return;
    }
  }
  option.whole = runs.ask(option.pools, 1, option.alone, AskedFor::kDeployment);
}

// The what-ifs of an option whose names `wanted` has.
template <class Wanted>
void ask_what_ifs(CapacityRuns& runs, const std::atomic<bool>* stop, CapacityOption& option, const Wanted& wanted) {
  for (CapacityWhatIf& asked : what_ifs_of(runs.question(), option)) {
    if (wanted(asked)) {
      option.what_ifs.push_back(std::move(asked));
    }
  }
  run_jobs(all_jobs(option.what_ifs.size()), {.stop = stop}, [&](std::size_t i, const Abandoned&) {
    CapacityWhatIf& asked = option.what_ifs[i];
    asked.answer = runs.ask(asked.share.pools, asked.share.one_in, option.alone,
                            runs.question().share_differs && option.whole ? AskedFor::kDeployment
                            : option.whole                                ? AskedFor::kLong
                                                                          : AskedFor::kInstance,
                            asked.growth);
  });
}

// What the recommended deployment does in other conditions, and its highest rate. The others are asked where it fails,
// if they cost less than it with an instance more.
void examine(CapacityRuns& runs, const std::atomic<bool>* stop, CapacityPlan& plan) {
  const CapacityQuestion& question = runs.question();
  CapacityOption& first = plan.study.options[plan.order.front()];
  ask_what_ifs(runs, stop, first,
               [&](const CapacityWhatIf& asked) { return question.every_what_if || asked.what == kSlower; });
  if (question.seeds > 0 && question.in_flight == 0) {
    const DeploymentShare share = share_of(first.pools);
    first.searches = runs.search(share.pools, share.one_in);
  }
  CapacityOption more = first;
  ++more.pools.back().instances;
  const CapacityCost limit = cost_of(more, plan);
  for (std::size_t i = 1; question.every_what_if && i < plan.order.size(); ++i) {
    if (plan.costs[plan.order[i]].usd_per_hour < limit.usd_per_hour) {
      ask_what_ifs(runs, stop, plan.study.options[plan.order[i]], [&](const CapacityWhatIf& asked) {
        return std::any_of(first.what_ifs.begin(), first.what_ifs.end(),
                           [&](const CapacityWhatIf& own) { return own.what == asked.what && !own.answer.holds(); });
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
      if (option.answer.holds() && short_of_prefill(question, option.pools, *option.whole)) {
        runs.set_whole({option.pools.front()}, of_prefill(*option.whole, {option.pools, 1}));
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
  std::int64_t longest = 0;
  for (const Request& r : scenario.requests.requests) {
    longest = std::max(longest, std::int64_t{r.input_tokens} + r.output_tokens);
  }
  for (const PreparedInstance& pool : prepare_run(scenario, scenario.policies.front()).pools) {
    out.push_back({pool.pool, scenario.model, pool.plan, longest, pool.serving.kv_blocks * pool.serving.kv_block_tokens,
                   scenario.deployment.router});
  }
  return out;
}

std::string scenario_of(const CapacityQuestion& question, const CapacityOption& option) {
  std::vector<CapacityPool> pools = option.pools;
  for (CapacityPool& pool : pools) {
    pool.instances += option.spare;
  }
  const CapacityDesign& first = option.pools.front().design;
  Config config = capacity_scenario(question, pools);
  if (question.in_flight > 0) {
    constexpr double kLeast = 1000, kFillings = 10;
    std::string clients = fmt::format(
        "requests={{kind: closed_loop, concurrency: {}, count: {}, ramp: {:.4g}s", std::llround(question.in_flight),
        std::llround(std::max(kLeast, kFillings * question.in_flight)), option.answer.point.e2e_s.mean);
    for (const auto& [key, value] : config.root().section("requests").rest()) {
      if (key != "kind" && key != "rate" && key != "count") {
        clients += fmt::format(", {}: {}", key, value);
      }
    }
    config.set(clients + "}");
  }
  const Seconds ramp = outlast_ramp(config);
  const std::string begins =
      ramp > Seconds(0)
          ? fmt::format(
                "# Conversations begin with none open: {:.4g} requests/s come from {:.0f} s on, fewer before.\n",
                question.rate, ramp.count())
          : "";
  const std::string shared =
      first.per_node > 1
          ? fmt::format("# {} instances share a {}: each stands here as a node of its own with {} of the GPUs.\n",
                        first.per_node, first.node, first.gpus)
          : "";
  return begins + shared + read_scenario(config, {}).resolved;
}

}  // namespace epsim
