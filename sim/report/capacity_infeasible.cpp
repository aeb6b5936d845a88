// What `epsim capacity` says where nothing holds the SLO within the limits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/core/text.h"
#include "sim/report/capacity_words.h"
#include "sim/report/format.h"

namespace epsim {

std::string infeasible_words(const CapacityPlan& plan) {
  if (!plan.order.empty()) {
    // How far beyond the limits; an unknown price or power is beyond any.
    const auto beyond = [&](std::size_t i) {
      const CapacityCost& c = plan.costs[i];
      constexpr double kUnknown = std::numeric_limits<double>::infinity();
      const double usd = c.price ? c.usd_per_hour : kUnknown, watts = c.watts > 0 ? c.watts : kUnknown;
      return std::max(plan.most_usd_per_hour > 0 ? usd / plan.most_usd_per_hour : 0,
                      plan.most_watts > 0 ? watts / plan.most_watts : 0);
    };
    const std::size_t nearest = *std::min_element(plan.order.begin(), plan.order.end(),
                                                  [&](std::size_t a, std::size_t b) { return beyond(a) < beyond(b); });
    const CapacityCost& cost = plan.costs[nearest];
    const std::string budget = plan.most_usd_per_hour > 0 ? money(plan.most_usd_per_hour) + " usd/h" : "",
                      power = plan.most_watts > 0 ? rounded(plan.most_watts / 1e3) + " kW" : "";
    return fmt::format(
        "Infeasible: the nearest deployment that holds the SLO {}, {} x {}, costs {} and draws {}; the limit is {}.\n",
        load_text(plan), cost.nodes, plan.study.options[nearest].node(),
        cost.price ? money(cost.usd_per_hour) + " usd/h" : "an unknown sum",
        cost.watts > 0 ? rounded(cost.watts / 1e3) + " kW" : "unknown power",
        budget + (budget.empty() || power.empty() ? "" : " and ") + power);
  }
  std::string out =
      fmt::format("Infeasible: no deployment of the search space, of at most {} (--max-nodes), holds {} {}.\n",
                  count_of(plan.most_nodes, "node"), name_of(plan.slo), load_text(plan));
  if (plan.study.nearest) {
    const CapacityRow& row = *plan.study.nearest;
    out += fmt::format("Nearest: {}: {}.\n", name_of(row.design), row.reason);
    return out;
  }
  // Of designs that run the one with the fewest nodes, of others the one with the most room, then the largest instance.
  const CapacityRow* bound = nullptr;
  const CapacityRow* nearest = nullptr;
  for (const CapacityRow& row : plan.study.rows) {
    const auto nodes = [](const CapacityRow& r) { return CapacityPool{r.design, r.bound}.nodes(); };
    if (row.status == CapacityStatus::kBound) {
      bound = bound == nullptr || nodes(row) < nodes(*bound) ? &row : bound;
    } else if (row.status == CapacityStatus::kDoesNotFit) {
      const auto rank = [](const CapacityRow& r) { return std::pair(r.room, r.design.gpus); };  // no room comes last
      nearest = nearest == nullptr || rank(row) > rank(*nearest) ? &row : nearest;
    }
  }
  if (bound != nullptr) {
    out += fmt::format("Fewest nodes (--max-nodes): {}: {}.\n", name_of(bound->design), bound->reason);
  } else if (nearest != nullptr) {
    const std::string helps = !nearest->room ? ""
                              : *nearest->room > 0
                                  ? " Shorter requests, a larger --attention-tp or nodes with more memory help."
                                  : " Larger --sizes, nodes with more memory or --dtypes of fewer bits help.";
    out += fmt::format("None fits; the {}, {}: {}{}\n", nearest->room ? "nearest" : "largest", name_of(nearest->design),
                       nearest->reason, helps);
  }
  return out;
}

}  // namespace epsim
