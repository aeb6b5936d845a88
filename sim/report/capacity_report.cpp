#include "sim/report/capacity_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/report/estimate.h"
#include "sim/report/format.h"
#include "sim/report/tables.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::size_t kShownOptions = 4;
// Mean errors of predicted medians on served points, SGLang, one instance (docs/validation.md).
constexpr double kTtftError = 0.216, kTpotError = 0.118;

const LoadPoint& point_of(const CapacityOption& option) {
  return option.whole ? option.whole->point : option.answer.point;
}

std::string milliseconds(double seconds) { return rounded(seconds * 1e3) + " ms"; }

// "ttft.p99<2s (1410 ms)".
std::string kept_text(const CapacityPlan& plan, const LoadPoint& p) {
  std::string out;
  for (const SloTerm& term : plan.slo.terms) {
    const double value = statistic_of(p, term);
    out +=
        fmt::format("{}{} ({})", out.empty() ? "" : ", ", name_of(term),
                    std::isfinite(value) ? milliseconds(value)
                                         : fmt::format("{:.1f} % of requests keep all bounds", 100 * p.slo.attainment));
  }
  return out;
}

std::string margin_table(const CapacityPlan& plan, const LoadPoint& p) {
  if (p.slo.terms.size() != plan.slo.terms.size()) {
    return "";
  }
  TextTable table;
  table.add_column({"SLO", ""}, Align::kLeft);
  table.add_column({"is", "ms"});
  table.add_column({"margin", "%"});
  table.add_column({"late requests", "%"});
  table.add_column({"allowed", "%"});
  for (std::size_t t = 0; t < plan.slo.terms.size(); ++t) {
    const SloTerm& term = plan.slo.terms[t];
    const SloTermScore& score = p.slo.terms[t];
    const double is = statistic_of(p, term), to_bound = 100 * (1 - is / term.bound.count());
    const bool mean = term.stat == LatencyStat::kMean;
    const auto known = [](double value, int digits) {
      return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("-");
    };
    const std::string interval = mean ? fmt::format(" +- {:.1f}", 100 * score.half_width / term.bound.count()) : "";
    table.add_row({name_of(term), known(is * 1e3, 1), known(to_bound, 1) + interval,
                   mean ? "-" : fmt::format("{:.2f} +- {:.2f}", 100 * score.value, 100 * score.half_width),
                   mean ? "-" : fmt::format("{:.4g}", 100 * score.allowed)});
  }
  return "\n" + table.render(2) + "  95 % intervals; late: beyond the bound\n";
}

// Terms whose value would pass the bound if it were off by the stated error.
std::string fragile_text(const CapacityPlan& plan, const LoadPoint& p) {
  std::string out;
  for (const SloTerm& term : plan.slo.terms) {
    const double error = term.metric == LatencyMetric::kTpot ? kTpotError : kTtftError;
    SloTerm told = term;  // of a bound of each request the p99 counts
    told.stat = term.stat == LatencyStat::kEach ? LatencyStat::kP99 : term.stat;
    if (statistic_of(p, told) * (1 + error) > term.bound.count()) {
      out += fmt::format("{}{}", out.empty() ? "" : " and ", name_of(term));
    }
  }
  return out.empty() ? fmt::format(
                           "Not fragile: it also holds if TTFT were {:.0f} % and TPOT {:.0f} % longer, the mean "
                           "errors of this program on served points.",
                           kTtftError * 100, kTpotError * 100)
                     : fmt::format(
                           "Fragile: {} would fail if TTFT were {:.0f} % and TPOT {:.0f} % longer, the mean errors "
                           "of this program on served points.",
                           out, kTtftError * 100, kTpotError * 100);
}

std::string design_text(const CapacityDesign& d) {
  std::string out = fmt::format("{}, {}, policy {}", d.engine, d.dtype, d.policy);
  for (const std::string& setting : d.settings) {
    out += ", " + setting;
  }
  return out;
}

std::string money_text(const CapacityPlan& plan, const CapacityCost& cost) {
  if (!cost.price) {
    return fmt::format("No {} price of these nodes is known; --price NODE=31.6usd/h gives one, --terms names others.",
                       plan.prices.terms);
  }
  return fmt::format(
      "It costs {} usd/h ({}), {} usd a month: {} usd per million tokens ({} per million of output), {} usd per "
      "1,000 requests.",
      rounded(cost.usd_per_hour), name_of(*cost.price), rounded(cost.usd_per_month), rounded(cost.usd_per_million),
      rounded(cost.usd_per_million_output), rounded(1000 * cost.usd_per_request));
}

std::string power_text(const CapacityCost& cost) {
  return cost.watts > 0
             ? fmt::format(" It draws {} kW, {} J a token.", rounded(cost.watts / 1e3), rounded(cost.joules_per_token))
             : "";
}

// How far demand may grow, and what fails then.
std::string headroom_text(const CapacityOption& option, const CapacityPlan& plan) {
  if (option.searches.empty()) {
    return "";
  }
  std::vector<double> rates;
  for (const GoodputSearch& search : option.searches) {
    rates.push_back(search.slo.holds ? search.slo.rate * option.pools.back().instances : 0);
  }
  const Estimate rate = estimate(rates);
  const std::string limit = option.searches.front().slo.limit;
  const std::string interval =
      rates.size() > 1 ? fmt::format(" +- {} ({} seeds)", rounded(rate.half_width), rates.size()) : " (one seed)";
  return fmt::format("Its {} hold the SLO up to {}{} requests/s together, {:+.0f} % from {:.4g}; then {} fails first.",
                     option.pools.size() > 1 ? "decode instances" : "instances", rounded(rate.mean), interval,
                     100 * (rate.mean / plan.rate - 1), plan.rate, limit.empty() ? "the rate" : limit);
}

// "P 2x1 TP8 + D 6x2 TP8": instances x nodes of each.
std::string short_text(const CapacityOption& option) {
  std::string out;
  for (const CapacityPool& pool : option.pools) {
    const char* role = pool.design.role == InstanceRole::kWhole     ? ""
                       : pool.design.role == InstanceRole::kPrefill ? "P "
                                                                    : "D ";
    out += fmt::format("{}{}{}x{} TP{}", out.empty() ? "" : " + ", role, pool.instances + option.spare,
                       pool.design.nodes, pool.design.attention_tp);
  }
  return out;
}

// What a whole deployment fails by.
std::string missed_text(const CapacityPlan& plan, const CapacityOption& option) {
  const LoadPoint& p = point_of(option);
  return p.slo.excess <= 0 ? fmt::format("at {:.4g} requests/s it is overloaded", plan.rate)
                           : fmt::format("{} is {:.3g} times what is allowed",
                                         name_of(plan.slo.terms[static_cast<std::size_t>(p.slo.limit)]),
                                         std::exp(p.slo.excess));
}

std::string next_text(const CapacityPlan& plan) {
  if (plan.order.size() < 2) {
    return "No other deployment of the search space holds the SLO.";
  }
  const CapacityCost &first = plan.costs[plan.order[0]], &second = plan.costs[plan.order[1]];
  const CapacityOption& next = plan.study.options[plan.order[1]];
  const std::string which = fmt::format("The next, {} x {} ({}),", next.nodes(), next.node(), short_text(next));
  if (!stands(next)) {
    return which + " does not hold as a whole.";
  }
  if (first.price && second.price && second.usd_per_hour == first.usd_per_hour) {
    return which + " costs the same, and is closer to its bounds.";
  }
  if (first.price && second.price && second.usd_per_hour < first.usd_per_hour) {
    return fmt::format("{} is {:.1f} % cheaper, but beyond the power limit.", which,
                       100 * (1 - second.usd_per_hour / first.usd_per_hour));
  }
  return first.price && second.price
             ? fmt::format("{} costs {:.1f} % more.", which, 100 * (second.usd_per_hour / first.usd_per_hour - 1))
             : fmt::format("The next takes {} x {}.", next.nodes(), next.node());
}

// What would make the others win.
std::string wins_text(const CapacityPlan& plan) {
  std::string out;
  const CapacityCost& first = plan.costs[plan.order[0]];
  for (std::size_t i = 1; i < std::min(kShownOptions, plan.order.size()); ++i) {
    const CapacityCost& cost = plan.costs[plan.order[i]];
    const CapacityOption& option = plan.study.options[plan.order[i]];
    const bool other_node = option.node() != plan.study.options[plan.order[0]].node();
    if (!stands(option)) {
      out += fmt::format("  {}, {}: it would have to hold as a whole: {}\n", option.node(), short_text(option),
                         missed_text(plan, option));
    } else if (first.price && cost.price && cost.usd_per_hour < first.usd_per_hour) {
      out += fmt::format("  {}, {}: cheaper, but draws {} kW: a higher power limit\n", option.node(),
                         short_text(option), rounded(cost.watts / 1e3));
    } else if (first.price && cost.price && other_node) {
      const double even = first.usd_per_hour / cost.nodes;
      out += fmt::format("  {}, {}: below {} usd/h a node, {:.1f} % less than now\n", option.node(), short_text(option),
                         rounded(even), 100 * (1 - even / cost.price->usd_per_hour));
    } else if (cost.nodes > first.nodes) {
      out += fmt::format("  {}, {}: {} fewer nodes for the same demand\n", option.node(), short_text(option),
                         cost.nodes - first.nodes);
    }
  }
  return out.empty() ? "" : "For the others to win:\n" + out;
}

std::string verdict_of(const CapacityPlan& plan, const CapacityAnswer& answer) {
  const LoadPoint& p = answer.point;
  if (p.slo.holds) {
    return "holds";
  }
  return p.slo.excess <= 0 || p.requests == 0
             ? "overloaded"
             : name_of(plan.slo.terms[static_cast<std::size_t>(p.slo.limit)]) + " fails";
}

// What becomes of it when the demand grows or the experts' loads are others.
std::string what_if_text(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  if (option.what_ifs.empty()) {
    return "";
  }
  TextTable table;
  table.add_column({"what if", ""}, Align::kLeft);
  table.add_column({"TTFT p99", "ms"});
  table.add_column({"TPOT p99", "ms"});
  table.add_column({"SLO", ""}, Align::kLeft);
  for (const CapacityWhatIf& asked : option.what_ifs) {
    const LoadPoint& p = asked.answer.point;
    const bool ran = p.ttft_s.p99 > 0;  // to its end
    table.add_row({asked.what, ran ? rounded(p.ttft_s.p99 * 1e3) : "-", ran ? rounded(p.tpot_s.p99 * 1e3) : "-",
                   verdict_of(plan, asked.answer)});
  }
  return "\n" + table.render(2) + "  of one instance at its share\n";
}

// What fails first as demand grows.
std::string growth_words(const CapacityPlan& plan, const CapacityOption& option) {
  double held = 0;
  for (const CapacityWhatIf& asked : option.what_ifs) {
    const std::string verdict = verdict_of(plan, asked.answer);
    if (asked.growth > 0 && verdict != "holds") {
      return fmt::format("Demand may grow by {:.0f} %; at {:.0f} % {}.", 100 * held, 100 * asked.growth,
                         verdict == "overloaded" ? "instances are overloaded" : verdict);
    }
    held = std::max(held, asked.growth);
  }
  return held > 0 ? fmt::format("It holds even if demand grows by {:.0f} %.", 100 * held) : "";
}

// Whether another skew of the experts' loads turns the answer.
std::string skew_words(const CapacityPlan& plan, const CapacityOption& option) {
  for (const CapacityWhatIf& asked : option.what_ifs) {
    if (asked.growth == 0) {
      const std::string verdict = verdict_of(plan, asked.answer);
      return verdict == "holds" ? fmt::format("It also holds with {}.", asked.what)
                                : fmt::format("Fragile: with {}, {}.", asked.what, verdict);
    }
  }
  return "";
}

std::string options_table(const CapacityPlan& plan) {
  TextTable table;
  table.add_column({"node", ""}, Align::kLeft);
  table.add_column({"instances", "x nodes"}, Align::kLeft);
  table.add_column({"policy", ""}, Align::kLeft);
  for (const char* name : {"nodes", "GPUs"}) {
    table.add_column({name, ""});
  }
  table.add_column({"cost", "usd/h"});
  table.add_column({"output", "usd/M"});
  table.add_column({"TTFT p99", "ms"});
  table.add_column({"TPOT p99", "ms"});
  table.add_column({"power", "kW"});
  table.add_column({"output/s", "per GPU"});
  for (std::size_t i = 0; i < std::min(kShownOptions, plan.order.size()); ++i) {
    const CapacityOption& option = plan.study.options[plan.order[i]];
    const CapacityCost& cost = plan.costs[plan.order[i]];
    const LoadPoint& p = point_of(option);
    const auto known = [](double value, bool is) { return is ? rounded(value) : std::string("-"); };
    table.add_row({option.node(), short_text(option), option.pools.back().design.policy, std::to_string(cost.nodes),
                   std::to_string(cost.gpus), known(cost.usd_per_hour, cost.price.has_value()),
                   known(cost.usd_per_million_output, cost.price.has_value()), rounded(p.ttft_s.p99 * 1e3),
                   rounded(p.tpot_s.p99 * 1e3), known(cost.watts / 1e3, cost.watts > 0),
                   rounded(cost.output_tokens_per_s_per_gpu)});
  }
  return table.render(2) + "  P prefill, D decode; TP of attention\n";
}

std::string infeasible_text(const CapacityPlan& plan) {
  if (!plan.order.empty()) {
    const CapacityCost& cost = plan.costs[plan.order.front()];
    const CapacityOption& option = plan.study.options[plan.order.front()];
    if (!stands(option)) {
      return fmt::format(
          "Infeasible: no deployment holds the SLO at {:.4g} requests/s with all its instances. Nearest: {} x {} ({}): "
          "{}.\n\n{}",
          plan.rate, cost.nodes, option.node(), short_text(option), missed_text(plan, option), options_table(plan));
    }
    return fmt::format(
        "Infeasible: the cheapest deployment that holds the SLO at {:.4g} requests/s, {} x {}, costs {} usd/h and "
        "draws {} kW, beyond the budget.\n\n{}",
        plan.rate, cost.nodes, plan.study.options[plan.order.front()].node(), rounded(cost.usd_per_hour),
        rounded(cost.watts / 1e3), options_table(plan));
  }
  std::string out = fmt::format("Infeasible: no deployment of the search space holds {} at {:.4g} requests/s.\n",
                                name_of(plan.slo), plan.rate);
  if (plan.study.nearest) {
    const CapacityRow& row = *plan.study.nearest;
    out += fmt::format("Nearest: {}: {}.\n", name_of(row.design), row.reason);
  }
  return out;
}

}  // namespace

std::string pools_text(const CapacityOption& option) {
  std::string out;
  for (const CapacityPool& pool : option.pools) {
    const int instances = pool.instances + option.spare;
    const std::string role = pool.design.role == InstanceRole::kWhole
                                 ? ""
                                 : std::string(kInstanceRoleNames[static_cast<std::size_t>(pool.design.role)]) + " ";
    out += fmt::format("{}{} {}instance{} of {} node{} with attention TP {}", out.empty() ? "" : " and ", instances,
                       role, instances == 1 ? "" : "s", pool.design.nodes, pool.design.nodes == 1 ? "" : "s",
                       pool.design.attention_tp);
  }
  return out;
}

namespace {

std::string recommendation_words(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  const CapacityCost& cost = plan.costs[plan.order.front()];
  return fmt::format("Rent {} x {} ({} GPUs): {}; {}{}. At {:.4g} requests/s {} {}. {}{}", cost.nodes, option.node(),
                     cost.gpus, pools_text(option), design_text(option.pools.back().design),
                     option.spare > 0 ? fmt::format(" ({} of each spare)", option.spare) : "", plan.rate,
                     option.whole ? "the whole deployment holds" : "one instance, at its share, holds",
                     kept_text(plan, point_of(option)), money_text(plan, cost), power_text(cost));
}

std::string why_words(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  std::string out = next_text(plan);
  for (const std::string& more : {growth_words(plan, option), headroom_text(option, plan), fragile_text(plan, point_of(option)), skew_words(plan, option)}) {
    out += more.empty() ? "" : " " + more;
  }
  if (option.grown != 0) {
    const int many = std::abs(option.grown);
    out += fmt::format(" The whole needs {} instance{} {} than one at its share tells.", many, many == 1 ? "" : "s",
                       option.grown > 0 ? "more" : "fewer");
  }
  return out;
}

}  // namespace

std::string capacity_text(const CapacityPlan& plan) {
  if (!plan.feasible) {
    return infeasible_text(plan);
  }
  return fmt::format("{}\n\n{}\n\n{}\n{}", wrapped(recommendation_words(plan), kColumns, 0),
                     wrapped(why_words(plan), kColumns, 0), options_table(plan), wins_text(plan) + margin_table(plan, point_of(plan.study.options[plan.order.front()])) + what_if_text(plan));
}

ResultTable what_ifs_table(const CapacityPlan& plan) {
  ResultTable out{"what_ifs", {{"what_if", true}, {"verdict", true}}, {}};
  for (const char* name : {"growth_share", "requests_per_s_of_instance", "ttft_p99_ms", "tpot_p99_ms", "holds"}) {
    out.columns.push_back({name});
  }
  if (!plan.order.empty()) {
    for (const CapacityWhatIf& asked : plan.study.options[plan.order.front()].what_ifs) {
      const LoadPoint& p = asked.answer.point;
      const auto told = [&](double seconds) { return Cell(p.ttft_s.p99 > 0 ? seconds * 1e3 : kUndefined); };
      out.rows.push_back({asked.what, verdict_of(plan, asked.answer), asked.growth, p.offered, told(p.ttft_s.p99),
                          told(p.tpot_s.p99), p.slo.holds ? 1.0 : 0.0});
    }
  }
  return out;
}

ResultTable candidates_table(const CapacityPlan& plan) {
  ResultTable out{"candidates", {}, {}};
  for (const char* name : {"node", "role", "engine", "dtype", "policy", "settings", "status", "reason"}) {
    out.columns.push_back({name, true});
  }
  for (const char* name : {"nodes_of_instance", "attention_tp", "instances_at_least", "instances_asked", "nodes_asked",
                           "requests_per_s_of_instance", "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms",
                           "e2e_mean_ms", "slo_times_allowed", "holds", "requests_in_system", "kv_tokens_of_instance",
                           "output_tokens_per_s_per_gpu", "tokens_per_s_per_user", "requests_of_run"}) {
    out.columns.push_back({name});
  }
  for (const CapacityRow& row : plan.study.rows) {
    const CapacityDesign& d = row.design;
    std::vector<Cell>& cells = out.rows.emplace_back();
    cells = {d.node,
             std::string(kInstanceRoleNames[static_cast<std::size_t>(d.role)]),
             d.engine,
             d.dtype,
             d.policy,
             fmt::format("{}", fmt::join(d.settings, " ")),
             std::string(name_of(row.status)),
             row.reason,
             1.0 * d.nodes,
             1.0 * d.attention_tp,
             1.0 * row.bound};
    if (!row.answer || !row.answer->refused.empty()) {
      cells.resize(out.columns.size(), kUndefined);
      continue;
    }
    const LoadPoint& p = row.answer->point;
    const auto number = [](double value) { return Cell(std::isfinite(value) ? value : kUndefined); };
    for (const double value :
         {1.0 * row.instances, 1.0 * row.instances * d.nodes, p.offered, p.ttft_s.mean * 1e3, p.ttft_s.p99 * 1e3,
          p.tpot_s.mean * 1e3, p.tpot_s.p99 * 1e3, p.e2e_s.mean * 1e3, std::exp(p.slo.excess), p.slo.holds ? 1.0 : 0.0,
          p.concurrency, 1.0 * static_cast<double>(row.answer->kv_tokens),
          p.offered * row.answer->output_tokens / d.gpus, 1 / p.tpot_s.mean, 1.0 * static_cast<double>(p.requests)}) {
      cells.push_back(number(value));
    }
  }
  return out;
}

ResultTable deployments_table(const CapacityPlan& plan) {
  ResultTable out{
      "deployments",
      {{"node", true}, {"pools", true}, {"engine", true}, {"dtype", true}, {"policy", true}, {"price", true}},
      {}};
  for (const char* name :
       {"nodes_of_deployment", "gpus_of_deployment", "usd_per_hour", "usd_per_month", "usd_per_million_tokens",
        "usd_per_million_input_tokens", "usd_per_million_output_tokens", "usd_per_request", "watts", "joules_per_token",
        "output_tokens_per_s_per_gpu", "ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms", "e2e_mean_ms",
        "run_as_a_whole", "holds", "instances_added_by_whole"}) {
    out.columns.push_back({name});
  }
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
                        p.ttft_s.mean * 1e3,
                        p.ttft_s.p99 * 1e3,
                        p.tpot_s.mean * 1e3,
                        p.tpot_s.p99 * 1e3,
                        p.e2e_s.mean * 1e3,
                        option.whole ? 1.0 : 0.0,
                        stands(option) ? 1.0 : 0.0,
                        1.0 * option.grown});
  }
  return out;
}

ResultTable prices_table(const CapacityPlan& plan) {
  ResultTable out{"prices", {{"seller", true}, {"price_terms", true}, {"as_of", true}, {"source", true}}, {}};
  for (const char* name : {"usd_per_node_hour", "usd_per_hour", "usd_per_million_output_tokens"}) {
    out.columns.push_back({name});
  }
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
  nlohmann::ordered_json out{{"format", 1},
                             {"epsim_version", version},
                             {"model", plan.model},
                             {"demand", plan.demand},
                             {"demand_requests_per_s", plan.rate},
                             {"demand_slo", name_of(plan.slo)},
                             {"feasible", plan.feasible},
                             {"answer", plan.feasible ? recommendation_words(plan) : infeasible_text(plan)},
                             {"why", plan.feasible ? why_words(plan) + " " + wins_text(plan) : ""},
                             {"runs_asked", plan.study.runs}};
  for (const ResultTable& table : {deployments_table(plan), prices_table(plan), what_ifs_table(plan), candidates_table(plan)}) {
    out[table.name] = json_rows(table);
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace epsim
