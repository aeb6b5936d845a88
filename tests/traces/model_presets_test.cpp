// The presets that the program carries.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <span>

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

// Load of the hottest of the router's groups over the mean group's, mean over layers.
double hottest_group(const RoutingLaw& law) {
  const auto groups = static_cast<std::size_t>(law.model().expert_groups);
  double sum = 0;
  for (int l = 0; l < law.layers(); ++l) {
    const std::span<const double> shares = law.popularity(l);
    double most = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      const auto group = shares.subspan(g * shares.size() / groups, shares.size() / groups);
      most = std::max(most, std::accumulate(group.begin(), group.end(), 0.0));
    }
    sum += most * static_cast<double>(groups);
  }
  return sum / law.layers();
}

TEST_CASE("DeepSeek-R1: what group_correlation is fitted to") {
  // The published counts of 4096-token prompts: the hottest of 8 groups has 2.07 times the mean, over the layers; the
  // same sorted loads, dealt with the correlation that CRAFT's workloads have, over ten patterns.
  const RoutingLaw measured = popularity_of("deepseek-r1-prefill");
  CHECK(hottest_group(measured) == doctest::Approx(2.073).epsilon(0.01));
  const auto dealt = [](const std::string& preset, double correlation) {
    double sum = 0;
    for (std::uint64_t pattern = 1; pattern <= 10; ++pattern) {
      RoutingModel m = routing_preset(preset);
      m.pattern_seed = pattern;
      m.group_correlation = correlation;
      for (LayerRouting& layer : m.layers) {
        layer.sigma = 0;
        layer.balanced.clear();
      }
      sum += hottest_group(RoutingLaw(std::move(m)));
    }
    return sum / 10;
  };
  const double fitted = routing_preset("deepseek-r1-e").group_correlation;
  MESSAGE("hottest group: ", dealt("deepseek-r1-prefill", fitted), ", at random ", dealt("deepseek-r1-prefill", 0));
  CHECK(dealt("deepseek-r1-prefill", fitted) == doctest::Approx(2.073).epsilon(0.02));
  CHECK(dealt("deepseek-r1-prefill", 0) < 1.35);
  for (const char* preset : {"deepseek-r1-e", "deepseek-r1-j", "deepseek-r1-l", "deepseek-r1-a"}) {
    CAPTURE(preset);
    CHECK(routing_preset(preset).group_correlation == fitted);
    MESSAGE(preset, ": ", hottest_group(popularity_of(preset)), ", at random ", dealt(preset, 0));
    CHECK(hottest_group(popularity_of(preset)) > dealt(preset, 0) + 0.2);
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
