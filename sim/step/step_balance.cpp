#include "sim/step/step_balance.h"

#include <algorithm>

#include "sim/core/check.h"
#include "sim/core/rng.h"
#include "sim/step/step_routing.h"

namespace epsim {

StepBalance step_balance(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy, int steps) {
  EPSIM_CHECK(policy.per_step != nullptr, "only policies that act in every step are screened on steps");
  const Parallelism& parallelism = pool.parallelism;
  const ClusterShape shape = parallelism.ep_shape(shape_of(pool.cluster));
  const std::vector<Residency> homes = homes_of(policy.placement->plan(s.plan_window, shape), shape.gpus_per_node);
  const std::vector<std::int64_t> by_rank(static_cast<std::size_t>(parallelism.dp_ranks()), pool.serving.token_budget);
  const std::vector<std::int64_t> by_gpu = tokens_by_gpu(by_rank, parallelism);
  std::vector<double> by_layer(static_cast<std::size_t>(s.model.moe_layers()), 0.0);
  StepLoads loads;
  const ExecutionProfile profile = policy.per_step->profile();
  StepBalance score;
  for (int step = 0; step < steps; ++step) {
    s.loads->draw(step, by_rank, loads);
    for (int l = 0; l < loads.layers; ++l) {
      const Residency& home = homes[static_cast<std::size_t>(l)];
      RandomStream random(s.seed, "step-screen", static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(l));
      const RequestMatrix requests = draw_requests(loads, l, parallelism, by_gpu, s.model.top_k, random);
      const RequestMatrix predicted =
          predict_layer(profile, l, requests, s.plan_window.layer(l), policy.step_run.predictor, random);
      const StepDecision decision = policy.per_step->decide(requests, predicted, home);
      check_predicted(profile, predicted, decision);
      by_layer[static_cast<std::size_t>(l)] += 1.0 / imbalance(decision.tokens) / steps;
      score.home += 1.0 / imbalance(local_or_home(requests, home)) / steps / loads.layers;
      score.most_extra = std::max(score.most_extra, decision.most_extra);
    }
  }
  const auto worst = std::min_element(by_layer.begin(), by_layer.end());
  score.worst = *worst;
  score.worst_layer = static_cast<int>(worst - by_layer.begin());
  for (const double b : by_layer) {
    score.mean += b / static_cast<double>(by_layer.size());
  }
  return score;
}

Bytes buffer_bytes(const MoeSpec& model, int gpus, const StepPolicy& policy) {
  const double own = static_cast<double>(model.experts) / gpus, others = model.experts - own;
  const ExecutionProfile profile = policy.profile();
  const double extra = std::min<double>(profile.extra_experts, others);
  const double slots = std::min(profile.slots == ExecutionProfile::kAsOwnExperts ? own : profile.slots, others);
  return model.expert_bytes() * (profile.resident_buffers * (own + extra) + slots);
}

}  // namespace epsim
