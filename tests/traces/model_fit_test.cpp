// Fitting: what a model generates is fitted back to a model that generates alike.
#include <doctest/doctest.h>

#include "tests/traces/model_support.h"
#include "tests/traces/support.h"
#include "traces/routing_model/compare.h"
#include "traces/routing_model/fit.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {
namespace {

RoutingFitOptions options(int rounds) {
  RoutingFitOptions o;
  o.name = "fitted";
  o.fitted_factors = 4;
  o.rounds = rounds;
  return o;
}

TEST_CASE("tokens: popularity, bursts and repeats come back") {
  RoutingModel m = test::small_routing_model(3, 24, 3, 0.9);
  m.repeat = 0.2;
  const RoutingLaw law(m);
  TraceCollector collector;
  TraceProfiler real, made;
  test::BothSinks both(collector, real);
  generate_tokens(law, {0, 30000}, Seed{1}, both);
  const RoutingModel fitted = collector.fit(options(6));
  CHECK(fitted.fitted_factors == 4);
  CHECK(fitted.repeat == doctest::Approx(0.2).epsilon(0.15));
  CHECK(fitted.sequence_tokens == doctest::Approx(100).epsilon(0.01));
  CHECK(fitted.layers[0].sigma == doctest::Approx(0.9).epsilon(0.25));
  generate_tokens(RoutingLaw(fitted), {0, 30000}, Seed{9}, made);
  const ProfileComparison c = compare(real.finish(), made.finish());
  CAPTURE(to_text(c));
  CHECK(c.goodness > 0.9);
}

TEST_CASE("load totals: popularity is fitted, the rest is assumed and the model says so") {
  const RoutingLaw law(test::small_routing_model(2, 16, 2, 0.5));
  TraceCollector collector;
  generate_loads(law, {0, 4, 2, 4096}, Seed{1}, collector);
  const RoutingModel fitted = collector.fit(options(0));
  CHECK(fitted.layers[1].sigma == kDefaultSigma);
  CHECK(test::contains(fitted.assumed, "everything else is assumed"));
  CHECK(fitted.layers[0].shares[0] > fitted.layers[0].shares[15]);
}

TEST_CASE("load rows: the variation between rows gives sigma") {
  RoutingModel m = test::small_routing_model(4, 32, 4, 0.6);
  m.topic_tokens = 4096;
  TraceCollector collector;
  generate_loads(RoutingLaw(m), {0, 400, 2, 4096}, Seed{1}, collector);
  const RoutingModel fitted = collector.fit(options(0));
  for (const LayerRouting& layer : fitted.layers) {
    CHECK(layer.sigma == doctest::Approx(0.6).epsilon(0.2));
  }
  CHECK(fitted.topic_tokens == 4096);
  CHECK(test::contains(fitted.assumed, "variation between rows are fitted"));
}

TEST_CASE("a layer without load cannot be fitted") {
  TraceCollector collector;
  TraceInfo info;
  info.layer_numbers = {3};
  info.experts = 4;
  info.top_k = 1;
  collector.begin(info, 1);
  collector.loads({std::vector<double>(4, 0.0), std::vector<std::int64_t>{0}});
  CHECK(test::contains(test::message([&] { collector.fit(options(0)); }), "layer 3 has no load"));
}

}  // namespace
}  // namespace epsim
