#include "sim/app/plan_explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "policies/plan_tools.h"
#include "sim/domain/affinity.h"
#include "sim/report/format.h"
#include "sim/report/text_table.h"

namespace epsim::app {
namespace {

constexpr int kHottest = 3;  // experts named per layer: the copies of most layers, and 120 columns hold no more

constexpr std::size_t kMostNamed = 12;  // hot experts that are listed one by one

// "17: 12.3 % x2": share of the layer's load, copies.
std::vector<std::string> hottest(const PlacementPlan& plan, const PlanRequest& request, int l) {
  const std::span<const double> load = request.load.layer(l);
  std::vector<int> order(load.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return load[static_cast<std::size_t>(a)] > load[static_cast<std::size_t>(b)]; });
  const std::vector<int> copies = copies_by_expert(plan.layers[static_cast<std::size_t>(l)], plan.experts);
  const double total = request.load.total(l);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < kHottest; ++i) {
    if (i >= order.size()) {
      out.emplace_back("-");
      continue;
    }
    const auto e = static_cast<std::size_t>(order[i]);
    out.push_back(fmt::format("{}: {} % x{}", e, percent(ratio(load[e], total)), copies[e]));
  }
  return out;
}

// The model's number of a layer where the model is known; else its position.
std::string layer_name(const PlanRequest& request, int l) {
  return fmt::format("{}", request.model ? request.model->moe_layer_numbers()[static_cast<std::size_t>(l)] : l);
}

std::string layer_table(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures) {
  TextTable table;
  table.add_column({request.model ? "model" : "MoE", "layer"});
  table.add_column({"extra", "copies"});
  table.add_column({"balancedness", "before"});
  table.add_column({"", "after"});
  table.add_column({"hottest expert:", "% of load, copies"}, Align::kLeft);
  table.add_column({"second", ""}, Align::kLeft);
  table.add_column({"third", ""}, Align::kLeft);
  for (int l = 0; l < request.load.layers(); ++l) {
    const auto at = static_cast<std::size_t>(l);
    std::vector<std::string> cells = {layer_name(request, l),
                                      fmt::format("{}", static_cast<int>(plan.layers[at].slots.size()) - plan.experts),
                                      fixed(figures.before[at], 4), fixed(figures.after[at], 4)};
    for (std::string& cell : hottest(plan, request, l)) {
      cells.push_back(std::move(cell));
    }
    table.add_row(std::move(cells));
  }
  return table.render(2);
}

// The gain of every number of copies that was tried, the chosen one in brackets.
std::string gain_table(const PlanRequest& request, const CraftExplanation& why) {
  TextTable table;
  table.add_column({request.model ? "model" : "MoE", "layer"});
  table.add_column({"chosen", "copies"});
  table.add_column({"balancedness", "without"});
  table.add_column({"", "with"});
  for (std::size_t c = 0; c < why.table.counts.size(); ++c) {
    table.add_column({c == 0 ? "gain with" : "", fmt::format("{}", why.table.counts[c])});
  }
  for (std::size_t l = 0; l < why.layer_copies.size(); ++l) {
    std::vector<std::string> cells = {layer_name(request, static_cast<int>(l)), fmt::format("{}", why.layer_copies[l]),
                                      fixed(why.table.base[l], 4), fixed(why.balancedness[l], 4)};
    for (std::size_t c = 0; c < why.table.counts.size(); ++c) {
      const std::string gain = fmt::format("{:+.3f}", why.table.gain[c][l]);
      cells.push_back(why.table.counts[c] == why.layer_copies[l] ? "[" + gain + "]" : gain);
    }
    table.add_row(std::move(cells));
  }
  return table.render(2);
}

std::string factor_table(const CraftExplanation& why) {
  TextTable table;
  table.add_column({"replication", "factor"});
  table.add_column({"mean gain", "over layers"});
  table.add_column({"", ""}, Align::kLeft);
  for (std::size_t i = 0; i < why.curve.factor.size(); ++i) {
    const bool chosen = why.curve.factor[i] == why.replication_factor;
    table.add_row({fmt::format("{}", why.curve.factor[i]), fixed(why.curve.gain[i], 4), chosen ? "chosen" : ""});
  }
  return table.render(2);
}

std::string explain_craft(const PlanRequest& request) {
  CraftExplanation why;
  craft_plan(*request.craft, request.load, request.shape, &why);
  std::string out = fmt::format("\nreplication factor {}: {} copies over all layers\n\n", why.replication_factor,
                                why.replication_factor * request.shape.gpus);
  if (!why.curve.factor.empty()) {
    out += factor_table(why) + "\n";
  }
  return out + "gain in balancedness by number of extra copies of a layer, replayed on the loads; [chosen]\n\n" +
         gain_table(request, why);
}

// Affinity kept inside GPUs and spread of sizes for every ratio that was tried.
std::string ratio_table(const GraceExplanation& why) {
  TextTable table;
  table.add_column({"ratio", "r"});
  table.add_column({"affinity", "inside U"});
  table.add_column({"deviation", "of sizes S"});
  table.add_column({"", ""}, Align::kLeft);
  for (const RatioPoint& point : why.points) {
    table.add_row({fixed(point.ratio, 2), fixed(point.utilisation, 4), fixed(point.deviation, 3),
                   point.ratio == why.ratio ? "chosen" : ""});
  }
  return table.render(2);
}

std::string group_table(const PlanRequest& request, const GraceExplanation& why) {
  TextTable table;
  table.add_column({request.model ? "model" : "MoE", "layer"});
  table.add_column({"experts", "on a GPU"});
  table.add_column({"affinity", "inside U"});
  table.add_column({"heaviest", "GPU"});
  table.add_column({"hot experts", "copied"}, Align::kLeft);
  table.add_column({"to GPUs", ""}, Align::kLeft);
  for (std::size_t l = 0; l < why.groups.size(); ++l) {
    const auto [least, most] = std::minmax_element(why.groups[l].begin(), why.groups[l].end(),
                                                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::span<const double> values = request.load.affinity()->layer(static_cast<int>(l));
    const AffinityMatrix affinity(request.load.experts(), {values.begin(), values.end()});
    const GraceCopies& copies = why.copies[l];
    const bool many = copies.experts.size() > kMostNamed;
    table.add_row({layer_name(request, static_cast<int>(l)), fmt::format("{}..{}", least->size(), most->size()),
                   fixed(affinity_utilisation(affinity, why.groups[l]), 3), fmt::format("{}", copies.heaviest),
                   copies.experts.empty() ? "-"
                   : many                 ? fmt::format("{} experts", copies.experts.size())
                                          : fmt::format("{}", fmt::join(copies.experts, " ")),
                   copies.gpus.empty() ? "-" : fmt::format("{}", fmt::join(copies.gpus, " "))});
  }
  return table.render(2);
}

std::string explain_grace(const PlanRequest& request) {
  GraceExplanation why;
  grace_plan(*request.grace, request.load, request.shape, &why);
  std::string out =
      fmt::format("\ngroups by affinity, sizes within {:.0f} % of equal ones inside a node\n\n", why.ratio * 100);
  if (!why.points.empty()) {
    out += ratio_table(why) + "\n";
  }
  return out + group_table(request, why);
}

}  // namespace

std::string explain_plan(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures) {
  std::string out =
      fmt::format("{} on {} GPUs, layer by layer\n\n{}", plan.policy, plan.gpus, layer_table(plan, request, figures));
  return request.craft ? out + explain_craft(request) : request.grace ? out + explain_grace(request) : out;
}

}  // namespace epsim::app
