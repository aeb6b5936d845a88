// What a node costs an hour and how much power it draws, by the dated figures of models/hardware/costs.yaml.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/domain/cluster_spec.h"

namespace epsim {

struct NodePrice {
  double usd_per_hour = 0;  // of a node
  std::string seller, terms, as_of, source;
  bool own = false;  // a user's, without power; all others have it in them
};
// "AWS on demand, 2026-09-25".
std::string name_of(const NodePrice& price);

// The names of terms that prices come under.
std::vector<std::string> price_terms();

// Every price of a node, those of the node itself first. Empty where none is known.
std::vector<NodePrice> node_prices(const NodeSpec& node);

// A user's own: "p5en.48xlarge=31.6usd/h". Throws InputError.
struct OwnPrice {
  std::string node;
  double usd_per_hour = 0;
};
OwnPrice parse_price(const std::string& text);

// The power of a node as a function of the share of time in which its GPUs run steps.
struct NodePower {
  double idle_watts = 0, busy_watts = 0;  // with the PUE
  std::string source;
  double watts(double use) const { return idle_watts + (busy_watts - idle_watts) * use; }
};
// `pue`: in place of that of the file, except for racks whose figure includes it.
std::optional<NodePower> node_power(const NodeSpec& node, std::optional<double> pue = {});

}  // namespace epsim
