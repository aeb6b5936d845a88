#include "sim/serving/step_screen.h"

#include <algorithm>
#include <cmath>

#include "sim/core/rng.h"

namespace epsim {
namespace {

// Whole assignments of `tokens` tokens that choose by `pi`: running sums rounded from a random start, so that the total
// is tokens x sum(pi) up to one and no expert is off by more than one.
void draw_requests(std::span<const float> pi, double tokens, RandomStream& random, RequestMatrix& out, int gpu) {
  double exact = random.uniform();
  auto given = static_cast<std::int64_t>(exact);
  for (int e = 0; e < out.experts; ++e) {
    exact += tokens * static_cast<double>(pi[static_cast<std::size_t>(e)]);
    const auto upto = static_cast<std::int64_t>(exact);
    out.at(gpu, e) = upto - given;
    given = upto;
  }
}

// What a predictor of the stated accuracy would have said: the rest follows the loads that the scenario plans from.
RequestMatrix predict(const RequestMatrix& truth, std::span<const double> stale, const StepScreenOptions& options,
                      RandomStream& random) {
  std::vector<double> wrong(stale.begin(), stale.end());
  double sum = 0;
  for (double& share : wrong) {
    share *= random.lognormal(0.0, options.distortion);
    sum += share;
  }
  RequestMatrix out(truth.gpus, truth.experts);
  for (int g = 0; g < truth.gpus; ++g) {
    const double missed = (1.0 - options.accuracy) * static_cast<double>(truth.of_gpu(g));
    for (int e = 0; e < truth.experts; ++e) {
      out.at(g, e) = std::llround(options.accuracy * static_cast<double>(truth.at(g, e)) +
                                  missed * wrong[static_cast<std::size_t>(e)] / sum);
    }
  }
  return out;
}

}  // namespace

StepScore screen_steps(const Scenario& s, const StepPolicy& policy, const StepScreenOptions& options) {
  const int gpus = s.cluster.gpus();
  const Residency home = Residency::contiguous(s.model.experts, gpus);
  const double tokens = static_cast<double>(s.serving.chunked_prefill_size) / s.parallelism.attention_tp;  // per GPU
  const std::vector<std::int64_t> by_rank(static_cast<std::size_t>(s.parallelism.dp_ranks()),
                                          s.serving.chunked_prefill_size);
  std::vector<double> by_layer(static_cast<std::size_t>(s.model.moe_layers()), 0.0);
  StepLoads loads;
  RequestMatrix requests(gpus, s.model.experts);
  StepScore score;
  for (int step = 0; step < options.steps; ++step) {
    s.loads->draw(step, by_rank, loads);
    for (int l = 0; l < loads.layers; ++l) {
      RandomStream random(s.seed, "step-screen", static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(l));
      for (int g = 0; g < gpus; ++g) {
        const int source = loads.sources == 1 ? 0 : s.parallelism.rank_of(g);
        draw_requests(loads.row(l, source), tokens, random, requests, g);
      }
      const RequestMatrix predicted = predict(requests, s.plan_window.layer(l), options, random);
      const StepDecision decision = policy.decide(requests, predicted, home);
      by_layer[static_cast<std::size_t>(l)] += 1.0 / imbalance(decision.tokens) / options.steps;
      score.home += 1.0 / imbalance(local_or_home(requests, home)) / options.steps / loads.layers;
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

Bytes buffer_bytes(const Scenario& s, const StepPolicy& policy, int extra) {
  const double experts = static_cast<double>(s.model.experts) / s.cluster.gpus() + extra;
  return s.model.expert_bytes() * (policy.profile().resident_buffers * experts);
}

}  // namespace epsim
