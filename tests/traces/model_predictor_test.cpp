// Predicted ids: the stated hit rate and the stated popularity, both at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/traces/model_support.h"
#include "tests/traces/support.h"
#include "traces/routing_model/predictor.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {
namespace {

constexpr int kTokens = 20000, kExperts = 32, kTopK = 4, kLayers = 2;

struct Measured {
  double hit = 0, log_deviation = 0;
  std::vector<double> popularity = std::vector<double>(kExperts, 0.0);  // of layer 0's predictions
};

const std::vector<std::uint16_t>& true_ids() {
  static const std::vector<std::uint16_t> ids = [] {
    test::KeptTrace trace;
    generate_tokens(RoutingLaw(test::small_routing_model(kLayers, kExperts, kTopK, 0.0)), {0, kTokens}, Seed{1}, trace);
    return trace.experts;
  }();
  return ids;
}

LoadWindow true_loads() {
  LoadWindow window(kLayers, kExperts);
  for (std::size_t i = 0; i < true_ids().size(); ++i) {
    window.layer(static_cast<int>(i / kTopK % kLayers))[true_ids()[i]] += 1;
  }
  return window;
}

Measured measure(const PredictorSpec& spec) {
  const LoadWindow truth = true_loads();
  const TracePredictor predictor(truth, kTopK, spec, Seed{5});
  std::vector<std::uint16_t> out(true_ids().size());
  predictor.predict(0, true_ids(), out);
  Measured m;
  for (std::size_t i = 0; i < out.size(); ++i) {
    m.hit += out[i] == true_ids()[i] ? 1.0 / static_cast<double>(out.size()) : 0.0;
    if (i / kTopK % kLayers == 0) {
      m.popularity[out[i]] += 1.0 / (kTokens * kTopK);
    }
  }
  for (std::size_t at = 0; at < out.size(); at += kTopK) {
    REQUIRE(std::set<std::uint16_t>(&out[at], &out[at] + kTopK).size() == kTopK);
  }
  double sum = 0, square = 0;
  for (std::size_t e = 0; e < kExperts; ++e) {
    const double x = std::log(m.popularity[e] * truth.total(0) / truth.layer(0)[e]);
    sum += x / kExperts;
    square += x * x / kExperts;
  }
  m.log_deviation = std::sqrt(square - sum * sum);
  return m;
}

TEST_CASE("hit rate and distortion are as stated, both at once") {
  for (const double hit : {0.3, 0.6, 0.75}) {
    for (const double sigma : {0.0, 0.3}) {
      CAPTURE(hit);
      CAPTURE(sigma);
      PredictorSpec spec;
      spec.hit_rate = {hit};
      spec.sigma = sigma;
      const Measured m = measure(spec);
      // 160000 slots: standard error 0.1 %; the rest is that choices have no duplicates.
      CHECK(m.hit == doctest::Approx(hit).epsilon(0.03));
      // The deviation of 32 normal numbers is its own within 1 / sqrt(64) = 12 %, so three of those; without
      // distortion, avoiding duplicates leaves up to 0.08 (at a hit rate of 0.3).
      CHECK(m.log_deviation > 0.6 * sigma);
      CHECK(m.log_deviation < 1.4 * sigma + 0.1);
    }
  }
}

TEST_CASE("a perfect predictor predicts the truth") {
  PredictorSpec spec;
  spec.hit_rate = {1.0};
  CHECK(measure(spec).hit == doctest::Approx(1.0).epsilon(1e-9));
}

TEST_CASE("stale popularity: predictions follow the older window as far as stated") {
  PredictorSpec spec;
  spec.hit_rate = {0.4};
  spec.stale = 0.5;
  spec.stale_loads = LoadWindow(kLayers, kExperts);
  for (int l = 0; l < kLayers; ++l) {
    for (std::size_t e = 0; e < kExperts; ++e) {  // the same popularity, upside down
      spec.stale_loads.layer(l)[e] = 1.0 / static_cast<double>(kExperts - e + 7);
    }
  }
  const Measured m = measure(spec);
  const LoadWindow truth = true_loads();
  // Half the popularity of now and half of its mirror image: the ends are equal.
  CHECK(m.popularity[0] == doctest::Approx(m.popularity[kExperts - 1]).epsilon(0.15));
  CHECK(m.popularity[0] < 0.85 * truth.layer(0)[0] / truth.total(0));
  CHECK(m.hit == doctest::Approx(0.4).epsilon(0.03));
}

TEST_CASE("predictions of a token do not depend on where the block begins") {
  PredictorSpec spec;
  spec.hit_rate = {0.5, 0.9};  // by layer
  const TracePredictor predictor(true_loads(), kTopK, spec, Seed{5});
  const std::size_t size = kLayers * kTopK;
  std::vector<std::uint16_t> all(100 * size), part(60 * size);
  predictor.predict(0, std::span(true_ids()).first(100 * size), all);
  predictor.predict(40, std::span(true_ids()).subspan(40 * size, 60 * size), part);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 40 * static_cast<std::ptrdiff_t>(size)));
}

TEST_CASE("what cannot be is refused") {
  const auto message = [](const PredictorSpec& spec) {
    return test::message([&] { TracePredictor(true_loads(), kTopK, spec, Seed{5}); });
  };
  PredictorSpec spec;
  spec.hit_rate = {0.95};
  spec.sigma = 1.0;  // a popularity so different leaves far fewer hits
  CHECK(test::contains(message(spec), "at most"));
  spec.sigma = 0;
  spec.hit_rate = {1.5};
  CHECK(test::contains(message(spec), "from 0 to 1"));
  spec.hit_rate = {0.5, 0.5, 0.5};
  CHECK(test::contains(message(spec), "one for each"));
  spec.hit_rate = {0.5};
  spec.stale = 0.5;
  CHECK(test::contains(message(spec), "older window"));
}

}  // namespace
}  // namespace epsim
