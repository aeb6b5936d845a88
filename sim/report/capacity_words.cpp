#include "sim/report/capacity_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "sim/core/mapped.h"
#include "sim/core/text.h"
#include "sim/report/estimate.h"
#include "sim/report/format.h"
#include "sim/report/tables.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::size_t kShownOptions = 4;
constexpr const char* kOpen = "too close to tell";  // a verdict that more requests than were run could turn

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

std::string late_text(const SloTermScore& score) {
  return score.value > 0 ? fmt::format("{:.2f} +- {:.2f}", 100 * score.value, 100 * score.half_width)
                         : fmt::format("none (< {:.2f})", 100 * score.half_width);
}

std::string margin_table(const CapacityPlan& plan, const LoadPoint& p) {
  if (p.slo.terms.size() != plan.slo.terms.size()) {
    return "";
  }
  TextTable table;
  table.add_column({"SLO", ""}, Align::kLeft);
  table.add_columns({{"is", "ms"}, {"margin", "%"}, {"late requests", "%"}, {"allowed", "%"}});
  for (std::size_t t = 0; t < plan.slo.terms.size(); ++t) {
    const SloTerm& term = plan.slo.terms[t];
    const SloTermScore& score = p.slo.terms[t];
    const double is = statistic_of(p, term), to_bound = 100 * (1 - is / term.bound.count());
    const bool mean = term.stat == LatencyStat::kMean;
    const auto known = [](double value, int digits) {
      return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("-");
    };
    const std::string interval = mean ? fmt::format(" +- {:.1f}", 100 * score.half_width / term.bound.count()) : "";
    table.add_row({name_of(term), known(is * 1e3, 1), known(to_bound, 1) + interval, mean ? "-" : late_text(score),
                   mean ? "-" : fmt::format("{:.4g}", 100 * score.allowed)});
  }
  return "\n" + table.render(2) + "  95 % intervals; late: beyond the bound\n";
}

std::string design_text(const CapacityDesign& d, bool dense) {
  const bool placed = !dense && d.ep_ranks() > 1;
  std::string out = fmt::format("{}, {}{}", d.engine, d.dtype, placed ? ", policy " + d.policy : "");
  for (const std::string& setting : d.settings) {
    out += ", " + setting;
  }
  return out;
}

// What its prices rest on, where more than a little of them was not measured.
std::string certainty_text(const CapacityOption& option) {
  constexpr double kLittle = 0.05;
  const CapacityAnswer& answer = option.whole ? *option.whole : option.answer;
  const std::string share = answer.extrapolated > kLittle
                                ? fmt::format("{:.0f} % of its steps' time is extrapolated", 100 * answer.extrapolated)
                                : "";
  return share.empty()                 ? ""
         : answer.carried_over.empty() ? share + "."
                                       : fmt::format("{}: {}.", share, fmt::join(answer.carried_over, "; "));
}

std::string money_text(const CapacityPlan& plan, const CapacityCost& cost) {
  if (!cost.price) {
    return fmt::format("No {} price of these nodes is known; --price NODE=31.6usd/h gives one, --terms names others.",
                       plan.prices.terms);
  }
  constexpr double kPeak = 0.95;
  const bool peak = plan.mean_rate > 0 && plan.mean_rate < kPeak * plan.rate;
  return fmt::format(
      "It costs {} usd/h ({}), {} usd a month: {} usd per million tokens ({} per million of output), {} usd per "
      "1,000 requests{}.",
      money(cost.usd_per_hour), name_of(*cost.price), money(cost.usd_per_month), money(cost.usd_per_million),
      money(cost.usd_per_million_output), money(1000 * cost.usd_per_request),
      peak ? fmt::format(" at this peak; at the mean rate, {:.4g} requests/s, {} per million of output", plan.mean_rate,
                         money(cost.usd_per_million_output * plan.rate / plan.mean_rate))
           : "");
}

std::string power_text(const CapacityCost& cost) {
  return cost.watts > 0
             ? fmt::format(" It draws {} kW, {} J a token.", rounded(cost.watts / 1e3), rounded(cost.joules_per_token))
             : "";
}

// The highest rate, and what fails above it.
std::string headroom_text(const CapacityOption& option, const CapacityPlan& plan) {
  if (option.searches.empty()) {
    return "";
  }
  const std::vector<double> rates = mapped(option.searches, [&](const GoodputSearch& search) {
    return search.slo.holds ? search.slo.rate * share_of(option.pools).one_in : 0;
  });
  const Estimate rate = estimate(rates);
  const std::string limit = option.searches.front().slo.limit;
  const std::string interval =
      rates.size() > 1 ? fmt::format(" +- {} ({} seeds)", rounded(rate.half_width), rates.size()) : " (one seed)";
  return fmt::format(
      "Its instances hold the SLO up to {}{} requests/s together, {:+.0f} % from {:.4g}; then {} fails first.",
      rounded(rate.mean), interval, 100 * (rate.mean / plan.rate - 1), plan.rate, limit.empty() ? "the rate" : limit);
}

// "P 2x1 TP8 EP1 + D 6x2 TP8": instances x nodes of each; without EP its ranks are as many as GPUs.
std::string short_text(const CapacityOption& option) {
  std::string out;
  for (const CapacityPool& pool : option.pools) {
    const char* role = pool.design.role == InstanceRole::kWhole     ? ""
                       : pool.design.role == InstanceRole::kPrefill ? "P "
                                                                    : "D ";
    out += fmt::format("{}{}{}x{} TP{}", out.empty() ? "" : " + ", role, pool.instances + option.spare,
                       pool.design.size, pool.design.attention_tp);
    out += pool.design.ep_size > 0 ? fmt::format(" EP{}", pool.design.ep_size) : "";
  }
  return out;
}

const std::string& dtype_of(const CapacityOption& option) { return option.pools.back().design.dtype; }

// How far prefill and decode were asked apart where the answer has them together, and the other way round; empty where the
// table has both, or one was not in the search space.
std::string mode_text(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  const bool apart = option.pools.size() > 1;
  const auto is_other = [&](const std::string& node, bool other_apart) {
    return node == option.node() && other_apart != apart;
  };
  const bool asked = std::ranges::any_of(plan.study.rows, [&](const CapacityRow& row) {
    return is_other(row.design.node, row.design.role != InstanceRole::kWhole);
  });
  const bool found = std::ranges::any_of(
      plan.study.options, [&](const CapacityOption& other) { return is_other(other.node(), other.pools.size() > 1); });
  if (!asked || found) {
    return "";
  }
  return fmt::format("Prefill and decode {}", apart ? "together do not hold it with all nodes allowed."
                                              : power_counts(plan.most_watts, plan.prices)
                                                  ? "apart do not hold it with as many nodes or fewer; more were not "
                                                    "tried."
                                                  : "apart do not hold it with fewer nodes; as many or more were not "
                                                    "tried.");
}

// Where there is one option.
std::string alone_text(const CapacityPlan& plan) {
  const std::string& node = plan.study.options[plan.order.front()].node();
  const bool others =
      std::ranges::any_of(plan.study.rows, [&](const CapacityRow& row) { return row.design.node != node; });
  return others                    ? "No other kind of node in the search space holds the SLO."
         : mode_text(plan).empty() ? "No other kind of node or mode was in the search space."
                                   : "";
}

std::string next_text(const CapacityPlan& plan) {
  if (plan.order.size() < 2) {
    return alone_text(plan);
  }
  const CapacityCost &first = plan.costs[plan.order[0]], &second = plan.costs[plan.order[1]];
  const CapacityOption& next = plan.study.options[plan.order[1]];
  const std::string type =
      dtype_of(next) != dtype_of(plan.study.options[plan.order[0]]) ? fmt::format(", in {}", dtype_of(next)) : "";
  const std::string which = fmt::format("The next, {} x {} ({}{}),", next.nodes(), next.node(), short_text(next), type);
  if (first.price && second.price && second.usd_per_hour == first.usd_per_hour) {
    const auto strain = [&](std::size_t of) {
      const CapacityOption& option = plan.study.options[plan.order[of]];
      return strain_of((option.whole ? *option.whole : option.answer).point, plan.slo);
    };
    return which + (!within_budget(plan, second) ? " costs the same, but is beyond the power limit."
                    : second.nodes > first.nodes ? " costs the same, and takes more nodes."
                    : strain(1) > strain(0)      ? " costs the same, and is closer to its bounds."
                                                 : " costs the same, and holds as clearly.");
  }
  if (first.price && second.price && second.usd_per_hour < first.usd_per_hour) {
    return fmt::format("{} is {:.1f} % cheaper, but beyond the power limit.", which,
                       100 * (1 - second.usd_per_hour / first.usd_per_hour));
  }
  return first.price && second.price
             ? fmt::format("{} costs {:.1f} % more.", which, 100 * (second.usd_per_hour / first.usd_per_hour - 1))
             : fmt::format("The next takes {} x {}.", next.nodes(), next.node());
}

// What an option that costs more would need to be the cheapest: a price, or conditions in which it holds and the first
// does not (CapacityOption::what_ifs).
std::string wins_when(const CapacityPlan& plan, std::size_t i) {
  const CapacityCost &first = plan.costs[plan.order[0]], &cost = plan.costs[i];
  const CapacityOption& option = plan.study.options[i];
  std::string out;
  const auto add = [&](const std::string& more) { out += (out.empty() ? "" : "; or ") + more; };
  if (first.price && !cost.price) {
    add(fmt::format("a price below {} usd/h a node (none is known)", money(first.usd_per_hour / cost.nodes)));
  } else if (first.price && cost.price && cost.usd_per_hour < first.usd_per_hour) {
    add(fmt::format("it is cheaper, but draws {} kW: a higher power limit", rounded(cost.watts / 1e3)));
  } else if (first.price && cost.price && option.node() != plan.study.options[plan.order[0]].node()) {
    const double even = (first.usd_per_hour - cost.power_usd_per_hour) / cost.nodes;
    const double less = 1 - even / cost.price->usd_per_hour;
    if (even > 0) {
      add(less < 0.0005
              ? "any lower price"
              : fmt::format("a price below {} usd/h a node, {:.1f} % less than now", money(even), 100 * less));
    }
  } else if (cost.nodes > first.nodes) {
    add(fmt::format("{} fewer nodes for the same demand", cost.nodes - first.nodes + 1));
  }
  bool grown = false;  // more growth is no further condition
  for (const CapacityWhatIf& asked : option.what_ifs) {
    if (asked.answer.point.slo.holds && !(grown && asked.growth > 0)) {
      add(asked.what);
      grown = grown || asked.growth > 0;
    }
  }
  return out;
}

// What would make the next three win, one each.
std::vector<std::string> wins_of(const CapacityPlan& plan) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < std::min(kShownOptions, plan.order.size()); ++i) {
    if (const std::string when = wins_when(plan, plan.order[i]); !when.empty()) {
      const CapacityOption& option = plan.study.options[plan.order[i]];
      out.push_back(fmt::format("{}, {}: {}", option.node(), short_text(option), when));
    }
  }
  return out;
}

std::string wins_text(const CapacityPlan& plan) {
  const std::vector<std::string> wins = wins_of(plan);
  return wins.empty() ? "" : fmt::format("For the others to win:\n  {}\n", fmt::join(wins, "\n  "));
}

// Terms of payment under which another kind of node costs least, of those that have a price of the recommended one, too.
std::string terms_words(const CapacityPlan& plan) {
  const std::string& node = plan.study.options[plan.order.front()].node();
  if (plan.costs[plan.order.front()].price && plan.costs[plan.order.front()].price->own) {
    return "";  // the user's price has terms of its own
  }
  std::string out;
  for (const std::string& terms : price_terms()) {
    CapacityPlan other = plan;
    other.prices.terms = terms;
    decide(other);
    const std::string& winner = other.study.options[other.order.front()].node();
    const CapacityCost& cost = other.costs[other.order.front()];
    if (other.feasible && winner != node && other.costs[plan.order.front()].price &&
        cost.usd_per_hour < plan.costs[plan.order.front()].usd_per_hour) {
      out += fmt::format("{}{} x {} ({} usd/h, {})", out.empty() ? "" : ", ", cost.nodes, winner,
                         money(cost.usd_per_hour), name_of(*cost.price));
    }
  }
  return out.empty() ? "" : "On other terms of payment another kind of node is cheapest: " + out + ".";
}

// The instances of its share_of().
std::string share_text(const CapacityOption& option) {
  const DeploymentShare share = share_of(option.pools);
  if (option.pools.size() == 1) {
    return "one instance at its share";
  }
  return fmt::format("{} prefill and {} decode instance{}{}", share.pools[0].instances, share.pools[1].instances,
                     share.pools[1].instances == 1 ? "" : "s", share.one_in > 1 ? " at their share" : "");
}

// The run of its share in other conditions.
std::string what_if_text(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  if (option.what_ifs.empty()) {
    return "";
  }
  TextTable table;
  table.add_column({"what if", ""}, Align::kLeft);
  table.add_columns({{"TTFT p99", "ms"}, {"TPOT p99", "ms"}});
  table.add_column({"SLO", ""}, Align::kLeft);
  const char* cut_short = "";
  for (const CapacityWhatIf& asked : option.what_ifs) {
    const LoadPoint& p = asked.answer.point;
    const std::string verdict = verdict_of(plan, asked.answer), least = p.slo.holds || verdict == kOpen ? "" : ">";
    cut_short = least.empty() ? cut_short : "; >: the run ended once it was clear that the SLO fails";
    table.add_row({asked.what, least + rounded(ms_of(p.ttft_s, &Summary::p99)),
                   least + rounded(ms_of(p.tpot_s, &Summary::p99)), verdict});
  }
  const CapacityWhatIf& last = option.what_ifs.back();
  const bool whole = last.share.one_in == 1 && !last.share.pools.empty() &&
                     last.share.pools.back().instances == option.pools.back().instances;
  return fmt::format("\n{}  of {}{}\n", table.render(2), whole ? "the whole deployment" : share_text(option),
                     cut_short);
}

// What fails first as demand grows.
std::string growth_words(const CapacityPlan& plan, const CapacityOption& option) {
  double held = 0;
  for (const CapacityWhatIf& asked : option.what_ifs) {
    const std::string verdict = verdict_of(plan, asked.answer);
    if (asked.growth > 0 && verdict != "holds") {
      const std::string may =
          held > 0 ? fmt::format("Demand may grow by {:.0f} %; at", 100 * held) : "If demand grows by";
      return fmt::format("{} {:.0f} % {}.", may, 100 * asked.growth,
                         verdict == "overloaded" ? "instances are overloaded"
                         : verdict == kOpen      ? "it is " + verdict
                                                 : verdict);
    }
    held = std::max(held, asked.growth);
  }
  return held > 0 ? fmt::format("It holds even if demand grows by {:.0f} %.", 100 * held) : "";
}

// Whether slower steps, an instance less or other loads turn the answer.
std::string fragile_words(const CapacityPlan& plan, const CapacityOption& option) {
  std::string fails, kept, open;
  for (const CapacityWhatIf& asked : option.what_ifs) {
    if (asked.growth == 0) {
      const std::string verdict = verdict_of(plan, asked.answer);
      const bool holds = asked.answer.point.slo.holds;
      const std::string source = asked.what == kSlower ? ", epsim's mean TPOT error on served points" : "";
      std::string& list = verdict == kOpen ? open : holds ? kept : fails;
      list += (list.empty() ? "" : "; ") + asked.what + source + (holds || verdict == kOpen ? "" : ": " + verdict);
    }
  }
  std::string out = fails.empty() ? "" : "Fragile: " + fails + ".";
  out += open.empty() ? "" : fmt::format("{}Too close to tell: {}.", out.empty() ? "" : " ", open);
  const char* space = out.empty() ? "" : " ";
  return out + (kept.empty() ? "" : fmt::format("{}The recommended deployment also holds with: {}.", space, kept));
}

std::string options_table(const CapacityPlan& plan) {
  TextTable table;
  table.add_columns({{"node", ""}, {"instances", "x nodes"}}, Align::kLeft);
  const bool engines = std::ranges::any_of(plan.study.rows, [&](const CapacityRow& row) {
    return row.design.engine != plan.study.rows.front().design.engine;
  });
  const auto shown = std::span(plan.order).first(std::min(kShownOptions, plan.order.size()));
  const bool dtypes = std::ranges::any_of(
      shown, [&](std::size_t i) { return dtype_of(plan.study.options[i]) != dtype_of(plan.study.options[shown[0]]); });
  if (engines) {
    table.add_column({"engine", ""}, Align::kLeft);
  }
  if (dtypes) {
    table.add_column({"weights", ""}, Align::kLeft);
  }
  if (!plan.dense) {
    table.add_column({"policy", ""}, Align::kLeft);
  }
  table.add_columns({{"nodes", ""}, {"GPUs", ""}});
  table.add_columns({{"cost", "usd/h"}, {"output", "usd/M"}, {"TTFT p99", "ms"}, {"TPOT p99", "ms"}, {"power", "kW"}});
  table.add_column({"output/s", "per GPU"});
  for (const std::size_t i : shown) {
    const CapacityOption& option = plan.study.options[i];
    const CapacityCost& cost = plan.costs[i];
    const LoadPoint& p = point_of(option);
    const auto known = [](double value, bool is) { return is ? rounded(value) : std::string("-"); };
    const auto price = [&](double usd) { return cost.price ? money(usd) : std::string("-"); };
    std::vector<std::string> row{option.node(), short_text(option)};
    const CapacityDesign& design = option.pools.back().design;
    if (engines) {
      row.push_back(design.engine);
    }
    if (dtypes) {
      row.push_back(design.dtype);
    }
    if (!plan.dense) {
      row.push_back(design.ep_ranks() > 1 ? design.policy : "-");
    }
    row.insert(row.end(), {std::to_string(cost.nodes), std::to_string(cost.gpus), price(cost.usd_per_hour),
                           price(cost.usd_per_million_output), rounded(ms_of(p.ttft_s, &Summary::p99)),
                           rounded(ms_of(p.tpot_s, &Summary::p99)), known(cost.watts / 1e3, cost.watts > 0),
                           rounded(cost.output_tokens_per_s_per_gpu)});
    table.add_row(row);
  }
  return table.render(2) + "  P prefill, D decode; TP of attention; EP of experts, where not all GPUs\n";
}

}  // namespace

std::string load_text(const CapacityPlan& plan) {
  return plan.in_flight > 0 ? fmt::format("with {:.4g} requests in flight", plan.in_flight)
                            : fmt::format("at {:.4g} requests/s", plan.rate);
}

const LoadPoint& point_of(const CapacityOption& option) {
  return option.whole ? option.whole->point : option.answer.point;
}

std::string verdict_of(const CapacityPlan& plan, const CapacityAnswer& answer) {
  const LoadPoint& p = answer.point;
  if (!answer.refused.empty()) {
    return "cannot run";
  }
  if (!p.slo.holds && (p.slo.excess <= 0 || p.requests == 0)) {
    return "overloaded";
  }
  if (!p.slo.decided) {
    return kOpen;
  }
  if (p.slo.holds) {
    return "holds";
  }
  const auto limit = static_cast<std::size_t>(p.slo.limit);
  std::vector<std::string> failing{name_of(plan.slo.terms[limit])};
  for (std::size_t t = 0; t < p.slo.terms.size(); ++t) {
    const SloTermScore& score = p.slo.terms[t];
    const bool mean = plan.slo.terms[t].stat == LatencyStat::kMean;
    if (t != limit && score.value > (mean ? plan.slo.terms[t].bound.count() : score.allowed)) {
      failing.push_back(name_of(plan.slo.terms[t]));
    }
  }
  return fmt::format("{} {}", fmt::join(failing, ", "), failing.size() == 1 ? "fails" : "fail");
}

std::string pools_text(const CapacityOption& option) {
  std::string out;
  for (const CapacityPool& pool : option.pools) {
    const int instances = pool.instances + option.spare;
    const std::string role = pool.design.role == InstanceRole::kWhole
                                 ? ""
                                 : std::string(kInstanceRoleNames[static_cast<std::size_t>(pool.design.role)]) + " ";
    const CapacityDesign& d = pool.design;
    const int count = d.part() ? d.gpus : d.nodes;
    out +=
        fmt::format("{}{} {}instance{} of {} {}{} with attention TP {}", out.empty() ? "" : " and ", instances, role,
                    instances == 1 ? "" : "s", count, d.part() ? "GPU" : "node", count == 1 ? "" : "s", d.attention_tp);
    out += d.ep_size > 0 ? fmt::format(" and EP {}", d.ep_size) : "";
    out += d.knobs.empty() ? "" : fmt::format(" ({})", fmt::join(d.knobs, ", "));
  }
  return out;
}

std::string recommendation_words(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  const std::string held = option.pools.size() > 1 ? share_text(option) + " hold" : "one instance, at its share, holds";
  const CapacityCost& cost = plan.costs[plan.order.front()];
  return fmt::format(
      "Rent {} x {} ({} GPU{}): {}; {}{}. {} {} {}. {}{}", cost.nodes, option.node(), cost.gpus,
      cost.gpus == 1 ? "" : "s", pools_text(option), design_text(option.pools.back().design, plan.dense),
      option.spare > 0
          ? fmt::format(" ({} {} spare)", option.spare, option.pools.size() > 1 ? "of each pool" : "of them")
          : "",
      plan.in_flight > 0
          ? fmt::format("With {:.4g} requests in flight ({:.4g}/s)", plan.in_flight, rate_of(option, plan))
          : fmt::format("At {:.4g} requests/s", plan.rate),
      option.whole ? "the whole deployment holds" : held, kept_text(plan, point_of(option)), money_text(plan, cost),
      power_text(cost));
}

namespace {

std::string reasons(const CapacityPlan& plan) {
  const CapacityOption& option = plan.study.options[plan.order.front()];
  std::string out = next_text(plan);
  for (const std::string& more : {mode_text(plan), growth_words(plan, option), headroom_text(option, plan),
                                  fragile_words(plan, option), certainty_text(option), terms_words(plan)}) {
    out += (more.empty() || out.empty() ? "" : " ") + more;
  }
  return out;
}

}  // namespace

std::string why_words(const CapacityPlan& plan) {
  const std::vector<std::string> wins = wins_of(plan);
  return reasons(plan) + (wins.empty() ? "" : fmt::format(" For the others to win: {}.", fmt::join(wins, "; ")));
}

std::string capacity_text(const CapacityPlan& plan) {
  if (!plan.feasible) {
    return infeasible_words(plan) + (plan.order.empty() ? "" : "\n" + options_table(plan));
  }
  const CapacityOption& option = plan.study.options[plan.order.front()];
  return fmt::format("{}\n\n{}\n\n{}\n{}{}{}", wrapped(recommendation_words(plan), kColumns, 0),
                     wrapped(reasons(plan), kColumns, 0), options_table(plan), wins_text(plan),
                     margin_table(plan, point_of(option)), what_if_text(plan));
}

}  // namespace epsim
