#include "sim/step/step_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {
namespace {

// `out` [expert]: running sums of the weights rounded down from a random start, so that the total is `assignments` and each
// part is off by less than one. What is lost to rounding goes to the last expert that has a weight.
template <class Weight>
void draw_row(std::span<const Weight> weights, std::int64_t assignments, RandomStream& random,
              std::span<std::int64_t> out) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double scale = static_cast<double>(assignments) / sum;
  double exact = random.uniform();
  std::int64_t given = 0;
  std::size_t last = 0;
  for (std::size_t e = 0; e < out.size(); ++e) {
    const auto weight = static_cast<double>(weights[e]);
    exact += weight * scale;
    const std::int64_t upto = std::min(static_cast<std::int64_t>(exact), assignments);
    out[e] = upto - given;
    given = upto;
    last = weight > 0 ? e : last;
  }
  out[last] += assignments - given;
}

// Deals a source's assignments, `left` [expert], to its GPUs: each takes its part of what the ones before left.
void deal(int first_gpu, std::span<const std::int64_t> gpu_tokens, std::span<std::int64_t> left, RandomStream& random,
          RequestMatrix& out) {
  std::vector<std::int64_t> taken(left.size());
  std::int64_t all = std::accumulate(left.begin(), left.end(), std::int64_t{0});
  for (std::size_t i = 0; i < gpu_tokens.size(); ++i) {
    const std::int64_t part = gpu_tokens[i] * out.top_k;
    if (part == all) {
      std::ranges::copy(left, taken.begin());
    } else if (part == 0) {
      std::ranges::fill(taken, 0);
    } else {
      draw_row(std::span<const std::int64_t>(left), part, random, taken);
    }
    all -= part;
    for (std::size_t e = 0; e < left.size(); ++e) {
      out.at(first_gpu + static_cast<int>(i), static_cast<int>(e)) = taken[e];
      left[e] -= taken[e];
    }
  }
}

}  // namespace

std::vector<Residency> homes_of(const PlacementPlan& plan, int gpus_per_node) {
  std::vector<Residency> out;
  for (const LayerPlan& layer : plan.layers) {
    std::vector<int> home(static_cast<std::size_t>(plan.experts), -1);
    std::vector<ExpertCopy> more;
    for (int g = 0; g < plan.gpus; ++g) {
      for (int s = layer.first_slot[static_cast<std::size_t>(g)]; s < layer.first_slot[static_cast<std::size_t>(g) + 1];
           ++s) {
        const int expert = layer.slots[static_cast<std::size_t>(s)];
        int& first = home[static_cast<std::size_t>(expert)];
        if (first >= 0) {
          more.push_back({expert, g});
        } else {
          first = g;
        }
      }
    }
    Residency& lies = out.emplace_back(std::move(home), plan.gpus);
    lies.gpus_per_node = gpus_per_node;
    for (const ExpertCopy& copy : more) {
      lies.add(copy.expert, copy.gpu);
    }
  }
  return out;
}

std::vector<std::int64_t> tokens_by_gpu(std::span<const std::int64_t> by_rank, const Parallelism& parallelism) {
  std::vector<std::int64_t> out;
  const std::int64_t tp = parallelism.attention_tp;
  for (const std::int64_t tokens : by_rank) {
    for (std::int64_t i = 0; i < tp; ++i) {
      out.push_back(tokens * (i + 1) / tp - tokens * i / tp);
    }
  }
  return out;
}

RequestMatrix draw_requests(const StepLoads& loads, int layer, const Parallelism& parallelism,
                            std::span<const std::int64_t> gpu_tokens, int top_k, RandomStream& random) {
  RequestMatrix out(parallelism.gpus, loads.experts);
  out.top_k = top_k;
  const int gpus = loads.sources == 1 ? parallelism.gpus : parallelism.attention_tp;
  const auto per_source = static_cast<std::size_t>(gpus);
  std::vector<std::int64_t> whole(static_cast<std::size_t>(loads.experts));
  for (int s = 0; s < loads.sources; ++s) {
    const auto tokens = gpu_tokens.subspan(static_cast<std::size_t>(s) * per_source, per_source);
    const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    draw_row(loads.row(layer, s), all * top_k, random, whole);
    deal(s * gpus, tokens, whole, random, out);
  }
  return out;
}

RequestMatrix predict(const RequestMatrix& truth, std::span<const double> stale, const PredictorOptions& options,
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

RequestMatrix predict_layer(const ExecutionProfile& profile, int layer, const RequestMatrix& truth,
                            std::span<const double> stale, const PredictorOptions& options, RandomStream& random) {
  return layer == 0 || !profile.uses_prediction ? RequestMatrix(truth.gpus, truth.experts)
                                                : predict(truth, stale, options, random);
}

void check_predicted(const ExecutionProfile& profile, const RequestMatrix& predicted, const StepDecision& decision) {
  EPSIM_CHECK(
      profile.copies_on_demand || profile.copies_before_dispatch || decision.copies.empty() || predicted.total() > 0,
      "a policy that copies ahead copies nothing without a prediction");
}

}  // namespace epsim
