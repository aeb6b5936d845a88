// The chance that a token misses a set of copies, against exact sampling of a fixed number of experts.
//
// Exact: weights w_e, a token takes a set S of k experts with chance proportional to the product of their weights
// (conditional Poisson sampling, the fixed-size law of largest entropy for given inclusion chances). With e_k(w) the
// sum of all products of k of the weights, pi_e = w_e e_{k-1}(w without e) / e_k(w), and the chance to miss copies that
// take shares r_e of their experts' tokens is e_k(w (1 - r)) / e_k(w): each used expert goes elsewhere with 1 - r_e.
#include "models/network/miss_probability.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/core/rng.h"

using namespace epsim;

namespace {

// e_0 .. e_k of the weights.
std::vector<double> products(const std::vector<double>& weights, std::size_t k) {
  std::vector<double> e(k + 1, 0.0);
  e[0] = 1;
  for (const double w : weights) {
    for (std::size_t i = k; i > 0; --i) {
      e[i] += w * e[i - 1];
    }
  }
  return e;
}

struct Law {
  std::size_t k;
  std::vector<double> weight;
  std::vector<float> pi;

  Law(int experts, std::size_t top_k, double skew, std::uint64_t seed) : k(top_k) {
    RandomStream random(Seed{seed}, "weights");
    for (int e = 0; e < experts; ++e) {
      weight.push_back(random.lognormal(0.0, skew));
    }
    const double all = products(weight, k)[k];
    for (std::size_t e = 0; e < weight.size(); ++e) {
      std::vector<double> others = weight;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(e));
      pi.push_back(static_cast<float>(weight[e] * products(others, k - 1)[k - 1] / all));
    }
  }

  double missed(const std::vector<double>& share) const {
    std::vector<double> elsewhere;
    for (std::size_t e = 0; e < weight.size(); ++e) {
      elsewhere.push_back(weight[e] * (1.0 - share[e]));
    }
    return products(elsewhere, k)[k] / products(weight, k)[k];
  }

  double formula(const std::vector<double>& share, double pairs) const {
    MissProbability chance;
    for (std::size_t e = 0; e < pi.size(); ++e) {
      if (share[e] > 0) {
        chance.add(static_cast<double>(pi[e]), share[e]);
      }
    }
    return chance.value(pairs);
  }
};

// Relative errors of the chance to be reached.
struct Errors {
  double corrected = 0, independent = 0;
  void add(const Law& law, const std::vector<double>& share) {
    const double hit = 1.0 - law.missed(share);
    corrected = std::max(corrected, std::abs((1.0 - law.formula(share, pair_weight(law.pi))) / hit - 1.0));
    independent = std::max(independent, std::abs((1.0 - law.formula(share, 0.0)) / hit - 1.0));
  }
};

}  // namespace

TEST_CASE("uniform routing: the part of the experts that a node holds, without copies") {
  struct Row {
    int experts, nodes;
    std::size_t k;
  };
  for (const Row& r :
       {Row{256, 8, 8}, Row{384, 6, 8}, Row{384, 12, 8}, Row{128, 4, 8}, Row{64, 8, 6}, Row{256, 2, 8}}) {
    CAPTURE(r.experts);
    CAPTURE(r.nodes);
    const Law law(r.experts, r.k, 0.0, 1);
    CHECK(static_cast<double>(law.pi[0]) == doctest::Approx(static_cast<double>(r.k) / r.experts).epsilon(1e-6));
    std::vector<double> node(static_cast<std::size_t>(r.experts), 0.0);
    std::fill_n(node.begin(), r.experts / r.nodes, 1.0);
    // C(E - E/n, k) / C(E, k), as a product.
    double miss = 1;
    for (int i = 0; i < static_cast<int>(r.k); ++i) {
      miss *= (r.experts - static_cast<double>(r.experts) / r.nodes - i) / (r.experts - i);
    }
    CHECK(law.missed(node) == doctest::Approx(miss).epsilon(1e-9));
    Errors errors;
    errors.add(law, node);
    CHECK(errors.corrected <= 0.006);
    CHECK(errors.corrected < errors.independent);
  }
}

TEST_CASE("skewed routing, with and without copies elsewhere: within 1 % of the exact chance to be reached") {
  Errors whole, shared;
  for (const double skew : {0.5, 1.0, 1.5}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Law law(128, 8, skew, seed);
      RandomStream random(Seed{seed}, "copies");
      for (std::size_t first = 0; first < 128; first += 16) {  // a node of 8
        std::vector<double> node(128, 0.0);
        std::fill_n(node.begin() + static_cast<std::ptrdiff_t>(first), 16, 1.0);
        whole.add(law, node);
        for (double& share : node) {  // some experts of the node have copies elsewhere, some of elsewhere a copy here
          const double draw = random.uniform();
          share = draw < 0.2 ? 1.0 / static_cast<double>(2 + random.below(4)) : share;
        }
        shared.add(law, node);
      }
    }
  }
  CHECK(whole.corrected <= 0.01);
  CHECK(shared.corrected <= 0.01);
  CHECK(whole.independent >= 0.02);  // what it corrects
  CHECK(shared.independent >= 0.02);
}

TEST_CASE("where nothing is random, nothing is corrected") {
  // Four experts that every token uses, half of each one's tokens here: (1/2)^4 miss them all.
  const std::vector<float> pi{1, 1, 1, 1, 0, 0};
  CHECK(pair_weight(pi) == 0.0);
  MissProbability chance;
  for (int e = 0; e < 4; ++e) {
    chance.add(1.0, 0.5);
  }
  CHECK(chance.value(pair_weight(pi)) == 0.0625);
  // One expert alone is missed with 1 - pi, whatever the others do.
  MissProbability alone;
  alone.add(0.25, 1.0);
  CHECK(alone.value(0.2) == 0.75);
}
