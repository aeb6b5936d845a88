#include "sim/report/capacity_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/capacity_words.h"
#include "sim/report/tables.h"

namespace epsim {

ResultTable what_ifs_table(const CapacityPlan& plan) {
  ResultTable out{"what_ifs", {{"what_if", true}, {"verdict", true}}, {}};
  out.add_numbers({"growth_share", "requests_per_s_of_instance", "ttft_p99_ms", "tpot_p99_ms", "holds"});
  if (!plan.order.empty()) {
    for (const CapacityWhatIf& asked : plan.study.options[plan.order.front()].what_ifs) {
      const LoadPoint& p = asked.answer.point;
      out.rows.push_back({asked.what, verdict_of(plan, asked.answer), asked.growth, p.offered / asked.answer.instances,
                          ms_of(p.ttft_s, &Summary::p99), ms_of(p.tpot_s, &Summary::p99), p.slo.holds ? 1.0 : 0.0});
    }
  }
  return out;
}

ResultTable candidates_table(const CapacityPlan& plan) {
  ResultTable out{"candidates", {}, {}};
  out.add_words({"node", "role", "engine", "dtype", "policy", "settings", "status", "reason"});
  out.add_numbers({"nodes_of_instance", "attention_tp", "ep_size", "instances_at_least", "instances_asked",
                   "nodes_asked", "requests_per_s_of_instance", "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms",
                   "tpot_p99_ms", "e2e_mean_ms", "slo_times_allowed", "holds", "requests_in_system",
                   "kv_tokens_of_instance", "output_tokens_per_s_per_gpu", "tokens_per_s_per_user", "requests_of_run"});
  for (const CapacityRow& row : plan.study.rows) {
    const CapacityDesign& d = row.design;
    std::vector<Cell>& cells = out.rows.emplace_back();
    cells = {d.node,
             std::string(kInstanceRoleNames[static_cast<std::size_t>(d.role)]),
             d.engine,
             d.dtype,
             d.policy,
             fmt::format("{}", fmt::join(d.stated(), " ")),
             std::string(name_of(row.status)),
             row.reason,
             1.0 * d.nodes / d.per_node,
             1.0 * d.attention_tp,
             plan.dense ? kUndefined : 1.0 * d.ep_ranks(),
             1.0 * row.bound};
    if (!row.answer || !row.answer->refused.empty()) {
      cells.resize(out.columns.size(), kUndefined);
      continue;
    }
    const LoadPoint& p = row.answer->point;
    const int many = row.answer->instances;
    for (const double value :
         {1.0 * row.instances, 1.0 * CapacityPool{d, row.instances}.nodes(), p.offered / many,
          ms_of(p.ttft_s, &Summary::mean), ms_of(p.ttft_s, &Summary::p99), ms_of(p.tpot_s, &Summary::mean),
          ms_of(p.tpot_s, &Summary::p99), ms_of(p.e2e_s, &Summary::mean), std::exp(p.slo.excess),
          p.slo.holds ? 1.0 : 0.0, p.concurrency / many, 1.0 * static_cast<double>(row.answer->kv_tokens),
          p.offered / many * row.answer->output_tokens / d.gpus, ratio(1, p.tpot_s.mean),
          1.0 * static_cast<double>(p.requests)}) {
      cells.emplace_back(std::isfinite(value) ? value : kUndefined);
    }
  }
  return out;
}

ResultTable deployments_table(const CapacityPlan& plan) {
  ResultTable out{"deployments", {}, {}};
  out.add_words({"node", "pools", "engine", "dtype", "policy", "price"});
  out.add_numbers({"nodes_of_deployment", "gpus_of_deployment", "usd_per_hour", "usd_per_month",
                   "usd_per_million_tokens", "usd_per_million_input_tokens", "usd_per_million_output_tokens",
                   "usd_per_request", "watts", "joules_per_token", "output_tokens_per_s_per_gpu", "ttft_mean_ms",
                   "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms", "e2e_mean_ms", "run_as_a_whole"});
  for (const std::size_t i : plan.order) {
    const CapacityOption& option = plan.study.options[i];
    const CapacityCost& c = plan.costs[i];
    const CapacityDesign& d = option.pools.back().design;
    const LoadPoint& p = point_of(option);
    const auto priced = [&](double value) { return Cell(c.price ? value : kUndefined); };
    const auto powered = [&](double value) { return Cell(c.watts > 0 ? value : kUndefined); };
    out.rows.push_back({option.node(),
                        pools_text(option),
                        d.engine,
                        d.dtype,
                        d.policy,
                        c.price ? name_of(*c.price) : std::string(),
                        1.0 * c.nodes,
                        1.0 * c.gpus,
                        priced(c.usd_per_hour),
                        priced(c.usd_per_month),
                        priced(c.usd_per_million),
                        priced(c.usd_per_million_input),
                        priced(c.usd_per_million_output),
                        priced(c.usd_per_request),
                        powered(c.watts),
                        powered(c.joules_per_token),
                        c.output_tokens_per_s_per_gpu,
                        ms_of(p.ttft_s, &Summary::mean),
                        ms_of(p.ttft_s, &Summary::p99),
                        ms_of(p.tpot_s, &Summary::mean),
                        ms_of(p.tpot_s, &Summary::p99),
                        ms_of(p.e2e_s, &Summary::mean),
                        option.whole ? 1.0 : 0.0});
  }
  return out;
}

ResultTable prices_table(const CapacityPlan& plan) {
  ResultTable out{"prices", {{"seller", true}, {"price_terms", true}, {"as_of", true}, {"source", true}}, {}};
  out.add_numbers({"usd_per_node_hour", "usd_per_hour", "usd_per_million_output_tokens"});
  if (plan.order.empty()) {
    return out;
  }
  const CapacityCost& cost = plan.costs[plan.order.front()];
  const double output_per_hour = cost.output_tokens_per_s_per_gpu * cost.gpus * 3600;
  for (const NodePrice& price : plan.known_prices) {
    const double all = price.usd_per_hour * cost.nodes;
    out.rows.push_back(
        {price.seller, price.terms, price.as_of, price.source, price.usd_per_hour, all, all / output_per_hour * 1e6});
  }
  return out;
}

std::string capacity_json(const CapacityPlan& plan, const std::string& version) {
  nlohmann::ordered_json out{
      {"format", 1},
      {"epsim_version", version},
      {"model", plan.model},
      {"demand", plan.demand},
      {"demand_requests_per_s", plan.in_flight > 0 ? nullptr : nlohmann::ordered_json(plan.rate)},
      {"demand_in_flight", plan.in_flight > 0 ? nlohmann::ordered_json(plan.in_flight) : nullptr},
      {"demand_slo", name_of(plan.slo)},
      {"feasible", plan.feasible},
      {"answer", plan.feasible ? recommendation_words(plan) : infeasible_words(plan)},
      {"why", plan.feasible ? why_words(plan) : ""},
      {"warnings", plan.warnings},
      {"runs_asked", plan.study.runs}};
  for (const ResultTable& table :
       {deployments_table(plan), prices_table(plan), what_ifs_table(plan), candidates_table(plan)}) {
    out[table.name] = json_rows(table);
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace epsim
