#include "sim/verbs/plan_explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "policies/placement/packing.h"
#include "policies/plan_explanation.h"
#include "policies/plan_tools.h"
#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr int kHottest = 3;  // experts named per layer: the copies of most layers, and 120 columns hold no more

// "17: 12.3 % x2": share of the layer's load, copies.
std::vector<std::string> hottest(const PlacementPlan& plan, const PlanRequest& request, int l) {
  const std::span<const double> load = request.load.layer(l);
  const std::vector<int> order = order_by_load<double>(load, TieOrder::kStable);
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
  table.add_columns({{request.model ? "model" : "MoE", "layer"}, {"extra", "copies"}, {"balancedness", "before"}});
  table.add_column({"", "after"});
  table.add_columns({{"hottest expert:", "% of load, copies"}, {"second", ""}, {"third", ""}}, Align::kLeft);
  for (int l = 0; l < request.load.layers(); ++l) {
    const auto at = static_cast<std::size_t>(l);
    std::vector<std::string> cells = {layer_name(request, l),
                                      fmt::format("{}", static_cast<int>(plan.layers[at].slots.size()) - plan.experts),
                                      fixed(figures.before[at], 4), fixed(figures.after[at], 4)};
    std::ranges::move(hottest(plan, request, l), std::back_inserter(cells));
    table.add_row(std::move(cells));
  }
  return table.render(2);
}

std::string table_text(const ExplanationTable& what, const PlanRequest& request) {
  TextTable table;
  if (what.by_layer) {
    table.add_column({request.model ? "model" : "MoE", "layer"});
  }
  for (const ExplanationTable::Column& column : what.columns) {
    table.add_column({column.head, column.under}, column.text ? Align::kLeft : Align::kRight);
  }
  for (std::size_t row = 0; row < what.rows.size(); ++row) {
    std::vector<std::string> cells = what.rows[row];
    if (what.by_layer) {
      cells.insert(cells.begin(), layer_name(request, static_cast<int>(row)));
    }
    table.add_row(std::move(cells));
  }
  return fmt::format("{}{}{}", what.title, what.title.empty() ? "" : "\n\n", table.render(2));
}

}  // namespace

std::string explain_plan(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures) {
  std::string out = fmt::format("{} on {}, layer by layer\n\n{}", plan.policy, count_of(plan.gpus, "GPU"),
                                layer_table(plan, request, figures));
  const std::optional<PlanExplanation> why = explanation_of(*request.placement, request.load, request.shape);
  for (std::size_t t = 0; why && t < why->tables.size(); ++t) {
    out += fmt::format("\n{}", table_text(why->tables[t], request));
  }
  return out;
}

}  // namespace epsim
