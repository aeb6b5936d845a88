#include "policies/per_step/fastermoe.h"

#include <algorithm>
#include <numeric>

#include "policies/registry.h"
#include "policies/step_policy.h"

namespace epsim {

std::vector<int> fastermoe_shadows(std::span<const std::int64_t> tokens, const FasterMoeOptions& options) {
  std::vector<int> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = [&](int e) { return static_cast<double>(tokens[static_cast<std::size_t>(e)]); };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return count(a) > count(b); });

  const double weights = options.alpha * options.hidden * options.hidden;  // one of the two matrices
  const Seconds compute = Flops(4 * weights) / options.compute;            // one token
  const Seconds send_token = Bytes(options.hidden * options.element_bytes) / options.network;
  const Seconds send_expert = Bytes(2 * weights * options.element_bytes) / options.network;
  const auto step = [&](double busiest) { return (3 * compute + 4 * send_token) * busiest; };

  std::vector<int> shadowed;
  Seconds best = order.empty() ? Seconds{} : step(count(order.front()));
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const Seconds with_shadow = step(count(order[i + 1])) + send_expert * static_cast<double>(i + 1);
    if (with_shadow >= best) {
      break;
    }
    best = with_shadow;
    shadowed.push_back(order[i]);
  }
  return shadowed;
}

namespace {

constexpr KeyTable kFasterMoeKeys({
    {"hidden", key::number(Bound::kPositive), key::is(FasterMoeOptions{}.hidden),
     "Hidden size in the policy's own cost model."},
    {"network", key::byte_rate(Bound::kPositive), key::is(FasterMoeOptions{}.network),
     "Network rate in the policy's own cost model."},
    {"compute", key::flop_rate(Bound::kPositive), key::is(FasterMoeOptions{}.compute),
     "Compute rate in the policy's own cost model."},
});

class FasterMoe final : public StepPolicy {
 public:
  explicit FasterMoe(ConfigReader& in) {
    options_.hidden = in.read<double>(kFasterMoeKeys["hidden"]);
    options_.network = in.read<BytesPerSecond>(kFasterMoeKeys["network"]);
    options_.compute = in.read<FlopsPerSecond>(kFasterMoeKeys["compute"]);
  }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    std::vector<std::int64_t> tokens;
    for (int e = 0; e < requests.experts; ++e) {
      tokens.push_back(requests.of_expert(e));
    }
    Residency held = home;
    for (const int e : fastermoe_shadows(tokens, options_)) {
      for (int g = 0; g < held.gpus; ++g) {
        held.add(e, g);
      }
    }
    return with_copies_of(held, local_or_home(requests, held));
  }
  ExecutionProfile profile() const override {
    return {
        .plans_before_dispatch = true, .copies_on_demand = true, .broadcasts = true, .assumed_hidden = options_.hidden};
  }

 private:
  FasterMoeOptions options_;
};

}  // namespace

extern const StepPolicyEntry kFasterMoe{
    {"fastermoe", "The hottest experts are shadowed on every GPU while that pays: FasterMoE (PPoPP 2022).",
     "where tokens could go besides home and their own GPU", kFasterMoeKeys, make_policy<FasterMoe>}};

}  // namespace epsim
