// Does a plan made from one window of loads still balance another, and what does it cost in KV cache? Not a
// measurement: no request is served and nothing is priced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/memory/memory_model.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Balancedness: mean / max GPU load of a layer, 1 = perfect.
struct BalanceScore {
  double mean = 0, worst = 1;  // over layers
  int worst_layer = 0;         // MoE layer
};

struct BalanceRow {
  std::string policy = {};
  std::string_view pool = {};  // "prefill" or "decode" where these are apart
  bool per_step = false;
  int copies = 0;  // per GPU; of a per-step policy those brought to one GPU in one layer
  MemoryBreakdown memory = {};
  std::optional<double> planned = {};  // balancedness on the planning window
  BalanceScore scored = {};            // on the mean of the run's loads; of a per-step policy on two drawn steps
  int worst_layer_number = 0;          // of scored.worst_layer in the model
  int uneven = 0;  // without copies, experts of the fullest GPU beyond an even share, over all layers
};

// A row for each policy of the scenario and each of its pools, with what the policy does there. Throws what planning throws.
std::vector<BalanceRow> balance_of(const Scenario& scenario);

// For the terminal, and as the object of --json.
std::string balance_text(const Scenario& scenario, const std::vector<BalanceRow>& rows);
std::string balance_json(const Scenario& scenario, const std::vector<BalanceRow>& rows);

}  // namespace epsim
