// Requests and predictions of the Libra tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/per_step/libra.h"
#include "sim/core/rng.h"
#include "tests/support/residency.h"

namespace epsim::test {

// Libra's Table 1: share of experts predicted right on BookCorpus, DeepSeek-Prover-V1, HellaSwag and HumanEvalPlus.
inline constexpr double kQwen3Accuracy[] = {0.917, 0.865, 0.866, 0.870};
inline constexpr double kGlm45Accuracy[] = {0.796, 0.729, 0.766, 0.727};

// A prediction of which the share `accuracy` is right; the rest follows the popularity distorted by a lognormal factor
// per expert (sigma 0.5), so that misses also distort which expert is hot.
inline RequestMatrix predicted(const RequestMatrix& truth, double accuracy, std::uint64_t index) {
  RandomStream random(Seed{12}, "libra predictor", index);
  std::vector<double> wrong(static_cast<std::size_t>(truth.experts));
  double sum = 0;
  for (int e = 0; e < truth.experts; ++e) {
    wrong[static_cast<std::size_t>(e)] = static_cast<double>(truth.of_expert(e)) * random.lognormal(0, 0.5);
    sum += wrong[static_cast<std::size_t>(e)];
  }
  RequestMatrix out(truth.gpus, truth.experts);
  for (int g = 0; g < truth.gpus; ++g) {
    const auto misses = (1 - accuracy) * static_cast<double>(truth.of_gpu(g));
    for (int e = 0; e < truth.experts; ++e) {
      out.at(g, e) = std::llround(accuracy * static_cast<double>(truth.at(g, e)) +
                                  misses * wrong[static_cast<std::size_t>(e)] / sum);
    }
  }
  return out;
}

// Imbalance over several layers and steps.
struct Reached {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double imbalance) {
    sum += imbalance;
    worst = std::max(worst, imbalance);
    ++count;
  }
  double mean() const { return sum / count; }
};

// What Libra makes of `truth` when it plans from a prediction of it, with N = 8 and L = 4 (Sec. 5.2).
inline double libra_imbalance(const RequestMatrix& truth, double accuracy, LibraRelief relief, std::uint64_t index) {
  const Residency home = contiguous(truth.experts, truth.gpus);
  const LibraPrefetchOptions options{.n_extra = 8, .n_local = 4, .literal = false, .relief = relief};
  const Residency held = libra_prefetch(accuracy < 1 ? predicted(truth, accuracy, index) : truth, home, options);
  return imbalance(libra_shard(truth, held, {}));
}

}  // namespace epsim::test
