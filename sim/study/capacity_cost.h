// What a deployment costs and draws, at the rate that it serves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/catalogue/node_costs.h"
#include "sim/study/capacity_result.h"

namespace epsim {

struct CapacityPrices {
  std::string terms = "on_demand";  // all prices that are compared: commitments and ownership are other goods
  std::vector<OwnPrice> own;
  std::optional<double> pue;  // else that of costs.yaml
  double usd_per_kwh = 0;     // of power, on top of own prices; all others have it in them
};

// Nothing where no price is known in these terms.
std::optional<NodePrice> price_of(const std::string& node, const CapacityPrices& prices);

struct CapacityCost {
  int nodes = 0, gpus = 0;
  std::optional<NodePrice> price;
  double usd_per_hour = 0, power_usd_per_hour = 0;  // 0 without a price; the second is a part of the first
  double usd_per_million = 0, usd_per_million_input = 0, usd_per_million_output = 0;  // all of it over these tokens
  double usd_per_request = 0, usd_per_month = 0;                                      // 730 hours
  double watts = 0, joules_per_token = 0;  // 0 where the power is not known; all tokens
  double output_tokens_per_s_per_gpu = 0;
};

// Whether of deployments of as many nodes the one that draws less may be the answer: under a limit, or where it is paid.
inline bool power_counts(double most_watts, const CapacityPrices& prices) {
  return most_watts > 0 || prices.usd_per_kwh > 0;
}

// The answer: options with their costs, and which of them to take.
struct CapacityPlan {
  std::string model, demand;       // in words
  bool dense = false;              // the model: it has no experts, and no policy to choose
  double rate = 0, in_flight = 0;  // of the question
  double most_usd_per_hour = 0, most_watts = 0;
  int most_nodes = 0;
  Slo slo;
  CapacityPrices prices;
  CapacityStudy study;
  std::vector<CapacityCost> costs;  // of study.options
  std::vector<std::size_t>
      order;              // of study.options: the cheapest first, of equal cost the one further from its bounds
  bool feasible = false;  // order.front() may be taken
  std::vector<NodePrice> known_prices;  // of its nodes
  std::vector<std::string> warnings;    // of a run of the recommended deployment
  double mean_rate = 0;                 // of a demand whose peak is asked for; 0: it has none
};

// Requests/s that it serves: the demand, or what clients of a closed loop send it.
double rate_of(const CapacityOption& option, const CapacityPlan& plan);
CapacityCost cost_of(const CapacityOption& option, const CapacityPlan& plan);

// Whether it costs and draws no more than the plan allows. What costs an unknown sum, or draws unknown power, does not.
bool within_budget(const CapacityPlan& plan, const CapacityCost& cost);

// Costs and order; options without a price stand last, by their nodes. One beyond the budgets is not feasible; these
// come after all others.
void decide(CapacityPlan& plan);

}  // namespace epsim
