// FasterMoE's dynamic shadowing: the hottest experts are copied to every GPU for a step when that pays.
//   Source : laekov/fastmoe at 9d9cea8, fmoe/fastermoe/shadow_policy.py (He et al., PPoPP 2022); behaviour only.
//   Models : a two-layer MLP expert of float32 weights; a step takes 3 compute and 4 communication times of the busiest
//            expert (forward and backward), plus one broadcast per shadowed expert.
#include <vector>

#include "policies/registry.h"
#include "sim/core/sorted_ids.h"
#include "sim/core/units.h"

namespace epsim {
namespace {

constexpr double kWidthRatio = 2, kElementBytes = 4;  // of the source: expert width / model width; float32

constexpr KeyTable kFasterMoeKeys({
    {"hidden", key::number(Bound::kPositive), key::is(2048.0), "Hidden size in the policy's own cost model."},
    {"network", key::byte_rate(Bound::kPositive), key::is(BytesPerSecond{50e9 / 8}),
     "Network rate in the policy's own cost model."},
    {"compute", key::flop_rate(Bound::kPositive), key::is(FlopsPerSecond{11.5e12}),
     "Compute rate in the policy's own cost model."},
});

class FasterMoe final : public StepPolicy {
 public:
  explicit FasterMoe(ConfigReader& in)
      : hidden_(in.read<double>(kFasterMoeKeys["hidden"])),
        network_(in.read<BytesPerSecond>(kFasterMoeKeys["network"])),
        compute_(in.read<FlopsPerSecond>(kFasterMoeKeys["compute"])) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    Residency held = home;
    for (const int e : shadows(requests)) {
      for (int g = 0; g < held.gpus; ++g) {
        held.add(e, g);
      }
    }
    return with_copies_of(held, local_or_home(requests, held));
  }
  ExecutionProfile profile() const override {
    return {.plans_before_dispatch = true, .copies_on_demand = true, .broadcasts = true, .assumed_hidden = hidden_};
  }

 private:
  // Experts to shadow, hottest first; ties to the lower id. Stops at the first expert that does not shorten the step;
  // the coldest expert is never shadowed.
  std::vector<int> shadows(const RequestMatrix& requests) const {
    std::vector<double> tokens;
    for (int e = 0; e < requests.experts; ++e) {
      tokens.push_back(static_cast<double>(requests.of_expert(e)));
    }
    const auto count = [&](int e) { return tokens[static_cast<std::size_t>(e)]; };
    const std::vector<int> order = sorted_ids(requests.experts, [&](int a, int b) { return count(a) > count(b); });

    const double weights = kWidthRatio * hidden_ * hidden_;  // one of the two matrices
    const Seconds compute = Flops(4 * weights) / compute_;   // one token
    const Seconds send_token = Bytes(hidden_ * kElementBytes) / network_;
    const Seconds send_expert = Bytes(2 * weights * kElementBytes) / network_;
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

  double hidden_;
  BytesPerSecond network_;
  FlopsPerSecond compute_;
};

}  // namespace

extern const StepPolicyEntry kFasterMoe{
    {"fastermoe", "The hottest experts are shadowed on every GPU while that pays: FasterMoE (PPoPP 2022).",
     "where tokens could go besides home and their own GPU", kFasterMoeKeys, make_policy<FasterMoe>}};

}  // namespace epsim
