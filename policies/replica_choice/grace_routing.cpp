#include "policies/replica_choice/grace_routing.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "policies/plan_tools.h"
#include "policies/registry.h"
#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

[[noreturn]] void not_eq3() {
  throw InputError({"", 0, "replica_choice"},
                   "prediction eq3_literal takes plans in which all copied experts have their original on one GPU and "
                   "their copies on the same others, as GRACE's have; use `conserving` for this one.");
}

// Eq. 3 as printed.
std::vector<double> literal_loads(const LayerPlan& layer, std::span<const double> loads) {
  const std::vector<int> gpu = gpus_of_slots(layer);
  std::vector<double> out(static_cast<std::size_t>(layer.gpus()), 0.0);
  std::vector<int> holders;  // of the copied experts, the original's GPU first
  double copied = 0;
  const auto all = slots_by_expert(layer, static_cast<int>(loads.size()));
  for (std::size_t e = 0; e < all.size(); ++e) {
    const std::vector<int> here = mapped(all[e], [&](int slot) { return gpu[static_cast<std::size_t>(slot)]; });
    out[static_cast<std::size_t>(here.front())] += loads[e];
    if (here.size() > 1) {
      if (!holders.empty() && holders != here) {
        not_eq3();
      }
      holders = here;
      copied += loads[e];
    }
  }
  if (!holders.empty()) {
    double& heavy = out[static_cast<std::size_t>(holders.front())];
    const double share = heavy / static_cast<double>(holders.size());
    heavy += share - copied;
    for (std::size_t i = 1; i < holders.size(); ++i) {
      out[static_cast<std::size_t>(holders[i])] += share;
    }
  }
  return out;
}

struct GraceRule {
  WeightedRule rule = WeightedRule::kWeighted;
  Prediction prediction = Prediction::kConserving;
  std::optional<int> smooth_picks;  // tokens of an expert that take turns; absent = lots are drawn
};

// Each of `slots` gets its GPU's part of the shares for a token on `source`.
void set_row(float* row, std::span<const int> slots, std::span<const int> gpu, const std::vector<double>& weights,
             int source, const ClusterShape& shape, const GraceRule& how) {
  const std::vector<int> holders = mapped(slots, [&](int slot) { return gpu[static_cast<std::size_t>(slot)]; });
  std::vector<int> distinct = holders;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<double> by_gpu = copy_shares(source, distinct, weights, shape, how.rule);
  if (how.smooth_picks) {
    by_gpu = smooth_shares(by_gpu, *how.smooth_picks);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto at = std::lower_bound(distinct.begin(), distinct.end(), holders[i]) - distinct.begin();
    const auto together = std::count(holders.begin(), holders.end(), holders[i]);
    row[slots[i]] = static_cast<float>(by_gpu[static_cast<std::size_t>(at)] / static_cast<double>(together));
  }
}

class GraceChoice final : public ReplicaChoice {
 public:
  explicit GraceChoice(const GraceRule& how) : how_(how) {}

  SourceShares shares(const ChoiceInput& in) const override {
    const std::vector<double> weights = polling_weights(predicted_gpu_loads(in.layer, in.loads, how_.prediction));
    const std::vector<int> gpu = gpus_of_slots(in.layer);
    const auto slots = slots_by_expert(in.layer, static_cast<int>(in.loads.size()));
    const std::size_t width = in.layer.slots.size();
    SourceShares out{.gpus_per_source = how_.rule == WeightedRule::kWeighted ? in.shape.gpus : 1, .share = {}};
    for (int source = 0; source < in.shape.gpus / out.gpus_per_source; ++source) {
      out.share.resize(out.share.size() + width, 1.0F);
      float* row = out.share.data() + static_cast<std::size_t>(source) * width;
      for (const std::vector<int>& copies : slots) {
        if (copies.size() > 1) {
          set_row(row, copies, gpu, weights, source, in.shape, how_);
        }
      }
    }
    return out;
  }

 private:
  GraceRule how_;
};

enum class DrawOfCopies { kRandom, kSmooth };

}  // namespace

template <>
inline constexpr auto kNames<DrawOfCopies> = choice<DrawOfCopies>({{"random", DrawOfCopies::kRandom},
                                                                   {"smooth", DrawOfCopies::kSmooth}});

namespace {

constexpr KeyTable kWeightedChoiceKeys({
    {"prediction", key::one_of<Prediction>(), key::is(Prediction::kConserving), "How the load of copies is predicted."},
    {"draw", key::one_of<DrawOfCopies>(), key::is(DrawOfCopies::kRandom), "Random or smooth weighted round robin."},
    {"tokens", key::whole(Bound::kPositive), key::is(256),
     "Tokens of an expert, per source and step, that take turns (draw smooth)."},
});

// Outside the template: clang 14 takes no consteval operator in one.
constexpr Key kPredictionKey = kWeightedChoiceKeys["prediction"], kDrawKey = kWeightedChoiceKeys["draw"],
              kPicksKey = kWeightedChoiceKeys["tokens"];

template <WeightedRule kRule>
std::unique_ptr<ReplicaChoice> make_weighted_choice(ConfigReader& options) {
  GraceRule how{.rule = kRule, .prediction = options.read<Prediction>(kPredictionKey), .smooth_picks = {}};
  if (options.read<DrawOfCopies>(kDrawKey) == DrawOfCopies::kSmooth) {
    how.smooth_picks = options.read<int>(kPicksKey);
  }
  return std::make_unique<GraceChoice>(how);
}

}  // namespace

std::vector<double> predicted_gpu_loads(const LayerPlan& layer, std::span<const double> loads, Prediction how) {
  if (how == Prediction::kEq3Literal) {
    return literal_loads(layer, loads);
  }
  const std::vector<int> copies = copies_by_expert(layer, static_cast<int>(loads.size()));
  const std::vector<int> gpu = gpus_of_slots(layer);
  std::vector<double> out(static_cast<std::size_t>(layer.gpus()), 0.0);
  for (std::size_t slot = 0; slot < layer.slots.size(); ++slot) {
    const auto e = static_cast<std::size_t>(layer.slots[slot]);
    out[static_cast<std::size_t>(gpu[slot])] += loads[e] / copies[e];
  }
  return out;
}

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

extern const ReplicaChoiceEntry kWeightedRoundRobin{
    "weighted_round_robin",
    "Any copy, with weights inverse to the predicted load of its GPU (WRR of GRACE-MoE, Sec. 4.3, Algorithm 3).",
    "where tokens are, loads of the step itself", kWeightedChoiceKeys, make_weighted_choice<WeightedRule::kWeighted>};
extern const ReplicaChoiceEntry kTopologyAware{
    "topology_aware",
    "A copy on the token's GPU, else one in its node, else any, by the same weights (TAR of GRACE-MoE, Algorithm 4).",
    "loads of the step itself: a local copy is taken even where its GPU is overloaded", kWeightedChoiceKeys,
    make_weighted_choice<WeightedRule::kTopologyAware>};

}  // namespace epsim
