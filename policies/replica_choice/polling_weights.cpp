#include "policies/replica_choice/polling_weights.h"

#include <algorithm>

#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {

std::vector<double> polling_weights(std::span<const double> predicted_load) {
  return mapped(predicted_load, [&](double load) { return 1 / std::max(load, 1.0); });
}

std::vector<double> copy_shares(int token_gpu, std::span<const int> holders, std::span<const double> weights,
                                const ClusterShape& shape, WeightedRule rule) {
  EPSIM_CHECK(!holders.empty(), "an expert has a copy");
  const auto within = [&](auto allowed) {
    std::vector<double> out;
    double sum = 0;
    for (const int g : holders) {
      out.push_back(allowed(g) ? weights[static_cast<std::size_t>(g)] : 0.0);
      sum += out.back();
    }
    for (double& share : out) {
      share /= sum;
    }
    return out;
  };
  const auto same_gpu = [&](int g) { return g == token_gpu; };
  const auto same_node = [&](int g) { return shape.node_of(g) == shape.node_of(token_gpu); };
  if (rule == WeightedRule::kTopologyAware && std::any_of(holders.begin(), holders.end(), same_gpu)) {
    return within(same_gpu);
  }
  if (rule == WeightedRule::kTopologyAware && std::any_of(holders.begin(), holders.end(), same_node)) {
    return within(same_node);
  }
  return within([](int) { return true; });
}

std::vector<double> smooth_shares(std::span<const double> shares, int picks) {
  EPSIM_CHECK(picks > 0, "somebody picks");
  std::vector<double> credit(shares.size(), 0.0), out(shares.size(), 0.0);
  for (int turn = 0; turn < picks; ++turn) {
    for (std::size_t c = 0; c < shares.size(); ++c) {
      credit[c] += shares[c];
    }
    const auto chosen = static_cast<std::size_t>(std::max_element(credit.begin(), credit.end()) - credit.begin());
    credit[chosen] -= 1.0;
    out[chosen] += 1.0 / picks;
  }
  return out;
}

}  // namespace epsim
