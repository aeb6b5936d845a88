// The per-step policies of the papers as combinations of a prefetch rule and a token rule.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "policies/prefetch/fastermoe.h"
#include "policies/prefetch/libra.h"
#include "policies/prefetch/lina.h"
#include "policies/step_policy.h"
#include "policies/token_sharding/harmoeny.h"
#include "policies/token_sharding/least_loaded.h"
#include "policies/token_sharding/libra.h"

namespace epsim {
namespace {

// Everything held away from home.
std::vector<ExpertCopy> copies_of(const Residency& held) {
  std::vector<ExpertCopy> out;
  for (int e = 0; e < held.experts(); ++e) {
    for (int g = 0; g < held.gpus; ++g) {
      if (held.holds(e, g) && held.home_of(e) != g) {
        out.push_back({e, g});
      }
    }
  }
  return out;
}

// Experts that a GPU computes although they are not at home there had to be brought there.
std::vector<ExpertCopy> fetched(const TokenAssignment& tokens, const Residency& home) {
  std::vector<ExpertCopy> out;
  for (int e = 0; e < tokens.experts; ++e) {
    for (int g = 0; g < tokens.gpus; ++g) {
      if (tokens.at(g, e) > 0 && home.home_of(e) != g) {
        out.push_back({e, g});
      }
    }
  }
  return out;
}

StepDecision decision(TokenAssignment tokens, std::vector<ExpertCopy> copies) {
  std::vector<int> extra(static_cast<std::size_t>(tokens.gpus), 0);
  int most = 0;
  for (const ExpertCopy& copy : copies) {
    most = std::max(most, ++extra[static_cast<std::size_t>(copy.gpu)]);
  }
  return {std::move(tokens), most, std::move(copies)};
}

// A number, or `auto`: as many experts as arrive within the time window.
int read_extra(ConfigReader& in) {
  const std::string text = in.optional<std::string>("n_extra", "8");
  if (text == "auto") {
    const auto window = in.required<Seconds>("window", Bound::kNotNegative);
    const auto rate = in.required<BytesPerSecond>("rate", Bound::kPositive);
    const auto expert = in.required<Bytes>("expert_bytes", Bound::kPositive);
    return libra_extra_for_window(expert, rate, window, in.optional<int>("most_extra", 8, Bound::kNotNegative));
  }
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  in.check(error == std::errc() && end == text.data() + text.size() && value >= 0, "n_extra",
           fmt::format("'{}' is neither `auto` nor a whole number of experts, 0 or more.", text));
  return value;
}

LibraRelief read_relief(ConfigReader& in) {
  const std::string name = in.choice("relief", {"own_requests", "rebalanced", "simulated"}, "rebalanced");
  return name == "own_requests" ? LibraRelief::kOwnRequests
         : name == "rebalanced" ? LibraRelief::kRebalanced
                                : LibraRelief::kSimulated;
}

class Libra final : public StepPolicy {
 public:
  explicit Libra(ConfigReader& in) {
    prefetch_.n_extra = read_extra(in);
    const double alpha = in.optional<double>("alpha", 0.5, Bound::kNotNegative);
    prefetch_.n_local = in.optional<int>("n_local", libra_local_count(prefetch_.n_extra, alpha), Bound::kNotNegative);
    in.check(prefetch_.n_local <= prefetch_.n_extra, "n_local", "at most n_extra experts can be brought in.");
    prefetch_.literal = in.optional<bool>("literal_stop", false);
    prefetch_.relief = read_relief(in);
    sharding_.epsilon = in.optional<double>("epsilon", 0.01, Bound::kPositive);
    sharding_.stale_order = in.optional<bool>("stale_order", false);
    sharding_.cap_excess = in.optional<bool>("cap_excess", false);
  }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                      const Residency& home) const override {
    const Residency held = libra_prefetch(predicted, home, prefetch_);
    return decision(libra_shard(requests, held, sharding_).tokens, copies_of(held));
  }
  ExecutionProfile profile() const override {
    return {.dispatch = ExecutionProfile::Dispatch::kAllGather,
            .two_stage = true,
            .plans_before_dispatch = true,
            .resident_buffers = 2,
            .extra_experts = prefetch_.n_extra,
            .predicts_on_gpu = true};
  }

 private:
  LibraPrefetchOptions prefetch_;
  LibraShardingOptions sharding_;
};

class Lina final : public StepPolicy {
 public:
  explicit Lina(ConfigReader& in) : n_extra_(in.optional<int>("n_extra", 8, Bound::kNotNegative)) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                      const Residency& home) const override {
    std::vector<double> popularity;
    for (int e = 0; e < predicted.experts; ++e) {
      popularity.push_back(static_cast<double>(predicted.of_expert(e)));
    }
    const Residency held = lina_replicate(popularity, home, n_extra_);
    return decision(even_split(requests, held), copies_of(held));
  }
  ExecutionProfile profile() const override { return {.resident_buffers = 1, .extra_experts = n_extra_}; }

 private:
  int n_extra_;
};

class Harmoeny final : public StepPolicy {
 public:
  explicit Harmoeny(ConfigReader& in)
      : options_{in.optional<std::int64_t>("min_tokens", HarmoenyOptions{}.min_tokens, Bound::kPositive)} {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    TokenAssignment tokens = harmoeny_schedule(requests, home, options_).assignment();
    std::vector<ExpertCopy> copies = fetched(tokens, home);
    return decision(std::move(tokens), std::move(copies));
  }
  ExecutionProfile profile() const override { return {.plans_before_dispatch = true, .copies_on_demand = true}; }

 private:
  HarmoenyOptions options_;
};

class LeastLoaded final : public StepPolicy {
 public:
  explicit LeastLoaded(ConfigReader& in) {
    options_.capacity_factor = in.optional<double>("capacity_factor", options_.capacity_factor, Bound::kPositive);
    options_.min_chunk = in.optional<std::int64_t>("min_chunk", options_.min_chunk, Bound::kPositive);
    options_.min_imbalance = in.optional<double>("min_imbalance", options_.min_imbalance);
  }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    TokenAssignment tokens = least_loaded_plan(requests, home, options_).tokens;
    std::vector<ExpertCopy> copies = fetched(tokens, home);
    return decision(std::move(tokens), std::move(copies));
  }
  ExecutionProfile profile() const override { return {.plans_before_dispatch = true, .copies_on_demand = true}; }

 private:
  LeastLoadedOptions options_;
};

class FasterMoe final : public StepPolicy {
 public:
  explicit FasterMoe(ConfigReader& in) {
    options_.hidden = in.optional<double>("hidden", options_.hidden, Bound::kPositive);
    options_.network = in.optional<BytesPerSecond>("network", options_.network, Bound::kPositive);
    options_.compute = in.optional<FlopsPerSecond>("compute", options_.compute, Bound::kPositive);
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
    return decision(local_or_home(requests, held), copies_of(held));
  }
  ExecutionProfile profile() const override {
    return {.plans_before_dispatch = true, .copies_on_demand = true, .broadcasts = true};
  }

 private:
  FasterMoeOptions options_;
};

template <class Policy>
std::unique_ptr<StepPolicy> make(ConfigReader& options) {
  return std::make_unique<Policy>(options);
}

constexpr StepPolicyEntry kStepPolicies[] = {
    {"libra",
     "Experts predicted for the next layer are copied ahead, remote tokens rebalanced: Libra, Algorithms 1 and 2.",
     "n_extra (number, or auto: what window, rate and expert_bytes allow, up to most_extra (8); 8), alpha (0.5), "
     "n_local (alpha x n_extra), relief (own_requests|rebalanced|simulated; rebalanced), literal_stop (false), "
     "epsilon (0.01), stale_order (false), cap_excess (false)",
     make<Libra>},
    {"lina", "Popular experts copied by prediction, tokens split evenly: Lina (ATC 2023) as Libra's Sec. 5 runs it.",
     "n_extra (8)", make<Lina>},
    {"harmoeny",
     "Tokens move from the busiest GPU to the lightest, experts are fetched on demand: HarMoEny's schedule.",
     "min_tokens (150)", make<Harmoeny>},
    {"fastermoe", "The hottest experts are shadowed on every GPU while that pays: FasterMoE (PPoPP 2022).",
     "hidden (2048), network (6.25GB/s), compute (11.5TF/s)", make<FasterMoe>},
    {"least_loaded_ep", "What does not fit at home spills to the lightest GPUs: least-loaded EP (arXiv 2601.17111).",
     "capacity_factor (1.1), min_chunk (1024), min_imbalance (1.3)", make<LeastLoaded>},
};

}  // namespace

std::span<const StepPolicyEntry> step_policies() { return kStepPolicies; }

std::unique_ptr<StepPolicy> make_step_policy(const std::string& name, ConfigReader& options) {
  for (const StepPolicyEntry& entry : kStepPolicies) {
    if (entry.name == name) {
      return entry.make(options);
    }
  }
  return nullptr;
}

}  // namespace epsim
