#include "sim/study/capacity_cost.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/data_files.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

constexpr double kHoursPerMonth = 730;
constexpr double kMillion = 1e6;

}  // namespace

std::optional<NodePrice> price_of(const std::string& node, const CapacityPrices& prices) {
  const NodeSpec spec = find_node(node).spec;
  for (const OwnPrice& own : prices.own) {
    if (own.node == node || catalogue_key(own.node) == catalogue_key(spec.name)) {
      return NodePrice{own.usd_per_hour, "your price", "", "", "--price", true};
    }
  }
  const std::vector<NodePrice> known = node_prices(spec);
  const auto wanted = std::ranges::find(known, prices.terms, &NodePrice::terms);
  return wanted != known.end() ? std::optional(*wanted) : std::nullopt;
}

double rate_of(const CapacityOption& option, const CapacityPlan& plan) {
  if (plan.in_flight <= 0) {
    return plan.rate;
  }
  return option.whole ? option.whole->point.completed : option.answer.point.completed * share_of(option.pools).one_in;
}

CapacityCost cost_of(const CapacityOption& option, const CapacityPlan& plan) {
  const double rate = rate_of(option, plan);
  const CapacityPrices& prices = plan.prices;
  const NodeSpec node = find_node(option.node()).spec;
  const CapacityAnswer& answer = option.whole ? *option.whole : option.answer;
  CapacityCost out;
  out.nodes = option.nodes();
  out.gpus = out.nodes * node.gpus;
  const double input = rate * answer.input_tokens, output = rate * answer.output_tokens;  // tokens/s
  out.output_tokens_per_s_per_gpu = output / out.gpus;
  if (const std::optional<NodePower> power = node_power(node, prices.pue)) {
    out.watts = out.nodes * power->watts(std::min(1.0, answer.busy));
    out.joules_per_token = out.watts / (input + output);
  }
  out.price = price_of(option.node(), prices);
  if (out.price) {
    out.power_usd_per_hour = out.price->own ? out.watts / 1e3 * prices.usd_per_kwh : 0;
    out.usd_per_hour = out.nodes * out.price->usd_per_hour + out.power_usd_per_hour;
    const double per_second = out.usd_per_hour / 3600;
    out.usd_per_million = kMillion * per_second / (input + output);
    out.usd_per_million_input = kMillion * per_second / input;
    out.usd_per_million_output = kMillion * per_second / output;
    out.usd_per_request = per_second / rate;
    out.usd_per_month = out.usd_per_hour * kHoursPerMonth;
  }
  return out;
}

bool within_budget(const CapacityPlan& plan, const CapacityCost& cost) {
  return (plan.most_usd_per_hour <= 0 || (cost.price && cost.usd_per_hour <= plan.most_usd_per_hour)) &&
         (plan.most_watts <= 0 || (cost.watts > 0 && cost.watts <= plan.most_watts));
}

void decide(CapacityPlan& plan) {
  plan.costs = mapped(plan.study.options, [&](const CapacityOption& option) { return cost_of(option, plan); });
  plan.order.resize(plan.costs.size());
  std::iota(plan.order.begin(), plan.order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    const CapacityOption& option = plan.study.options[i];
    const CapacityAnswer& answer = option.whole ? *option.whole : option.answer;
    return std::tuple(!plan.costs[i].price, plan.costs[i].usd_per_hour, plan.costs[i].nodes,
                      strain_of(answer.point, plan.slo));
  };
  std::stable_sort(plan.order.begin(), plan.order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  plan.feasible = false;
  if (!plan.order.empty()) {
    // The least power among those that the budget allows may be another.
    const auto allowed = [&](std::size_t i) { return within_budget(plan, plan.costs[i]); };
    std::stable_partition(plan.order.begin(), plan.order.end(), allowed);
    plan.feasible = allowed(plan.order.front());
    plan.known_prices = node_prices(find_node(plan.study.options[plan.order.front()].node()).spec);
  }
}

}  // namespace epsim
