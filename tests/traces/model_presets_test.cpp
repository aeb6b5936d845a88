// The presets that the program carries.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/traces/support.h"
#include "traces/format/statistics.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/routing_law.h"

namespace epsim {
namespace {

// The popularity alone: without topics there is nothing to calibrate.
RoutingLaw popularity_of(const std::string& preset) {
  RoutingModel m = routing_preset(preset);
  for (LayerRouting& layer : m.layers) {
    layer.sigma = 0;
  }
  return RoutingLaw(std::move(m));
}

TEST_CASE("every preset reads, and says where it comes from and what it assumes") {
  CHECK(routing_presets().size() == 15);
  for (const PresetEntry& entry : routing_presets()) {
    CAPTURE(entry.name);
    const RoutingModel m = routing_preset(std::string(entry.name));
    CHECK(m.name == entry.name);
    CHECK_FALSE(m.source.empty());
    CHECK_FALSE(m.assumed.empty());
    CHECK(test::contains(std::string(entry.yaml.substr(0, entry.yaml.find("format:"))), "#"));
  }
  CHECK(test::contains(test::message([] { routing_preset("deepseek-r1-prefil"); }), "deepseek-r1-prefill"));
}

TEST_CASE("DeepSeek-R1: skew and balancedness of the published counts") {
  struct Row {
    const char* name;
    double max_over_mean, top2_share, gpus8, gpus64;
  };
  // The columns maxmean_mean, top2_share, balanced_ep8 and balanced_ep64 that the published counts give.
  for (const Row& r : {Row{"deepseek-r1-prefill", 8.122, 0.05735, 0.5396, 0.3018},
                       Row{"deepseek-r1-decode", 6.074, 0.04324, 0.5813, 0.3584}}) {
    CAPTURE(r.name);
    const RoutingLaw law = popularity_of(r.name);
    REQUIRE(law.layers() == 58);
    LoadWindow window(law.layers(), law.experts());
    for (int l = 0; l < law.layers(); ++l) {
      std::copy(law.popularity(l).begin(), law.popularity(l).end(), window.layer(l).begin());
    }
    const SkewSummary s = skew_summary(window);
    CHECK(s.mean == doctest::Approx(r.max_over_mean).epsilon(0.01));
    CHECK(s.average.top2_share == doctest::Approx(r.top2_share).epsilon(0.01));
    CHECK(*s.average.balancedness[0] == doctest::Approx(r.gpus8).epsilon(0.02));
    CHECK(*s.average.balancedness[3] == doctest::Approx(r.gpus64).epsilon(0.02));
  }
}

TEST_CASE("CRAFT's workloads: what the paper states") {
  // CRAFT section 3.2: layer 51 above 27 times the mean, its hottest two about 20 %; layer 20 about 2.5 times;
  // high-skew layers above 10 times. Section 5.3: E and J are highly skewed, L and A less.
  const auto high_layers = [](const RoutingLaw& law) {
    int high = 0;
    for (int l = 0; l < law.layers(); ++l) {
      high += layer_skew(law.popularity(l)).max_over_mean > 10 ? 1 : 0;
    }
    return high;
  };
  for (const char* model : {"deepseek-r1", "kimi-k2"}) {
    CAPTURE(model);
    const RoutingLaw e = popularity_of(std::string(model) + "-e"), a = popularity_of(std::string(model) + "-a");
    CHECK(high_layers(e) > 2 * high_layers(a));
    const auto skew = [&](int number) {
      const auto& layers = e.model().layers;
      const auto at = std::find_if(layers.begin(), layers.end(), [&](const auto& x) { return x.number == number; });
      return layer_skew(e.popularity(static_cast<int>(at - layers.begin())));
    };
    CHECK(skew(51).max_over_mean > 27);
    CHECK(skew(51).max_over_mean < 30);
    CHECK(skew(20).max_over_mean == doctest::Approx(2.5).epsilon(0.02));
    if (e.experts() == 256) {
      CHECK(skew(51).top2_share > 0.19);
      CHECK(skew(51).top2_share < 0.22);
    }
  }
}

}  // namespace
}  // namespace epsim
