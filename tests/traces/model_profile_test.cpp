// The statistics of a trace, worked out by hand, and two traces side by side.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/traces/model_support.h"
#include "tests/traces/support.h"
#include "traces/routing_model/compare.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {
namespace {

TraceInfo info_of(int layers, int experts, int top_k) {
  TraceInfo info;
  for (int l = 0; l < layers; ++l) {
    info.layer_numbers.push_back(l);
  }
  info.experts = experts;
  info.top_k = top_k;
  return info;
}

TEST_CASE("tokens: batches, overlap and affinity") {
  // 128 tokens, top-2 of 4 experts, one layer: the first 64 take {0, 1}, the others {2, 3}.
  TraceProfiler profiler;
  profiler.begin(info_of(1, 4, 2), 1);
  std::vector<std::uint16_t> experts;
  for (int t = 0; t < 128; ++t) {
    experts.push_back(t < 64 ? 0 : 2);
    experts.push_back(t < 64 ? 1 : 3);
  }
  const std::vector<std::int32_t> sequence(128, 0);
  // In two pieces, as a file would come.
  profiler.tokens({std::span(experts).first(100), {}, std::span(sequence).first(50), std::span(sequence).first(50)});
  profiler.tokens({std::span(experts).subspan(100), {}, std::span(sequence).first(78), std::span(sequence).first(78)});
  const TraceProfile p = profiler.finish();
  CHECK(p.tokens == 128);
  CHECK(p.layers[0].max_over_mean == 1.0);
  REQUIRE(p.batches.size() == 1);  // 256 and more tokens there are not
  CHECK(p.batches[0].batches == 2);
  CHECK(p.batches[0].mean == 2.0);  // 64 of 128 assignments on each of two experts: twice the mean of 32
  // 126 of 127 successive tokens share both experts; 112 of 120 that are 8 apart.
  CHECK(*p.overlap_1 == doctest::Approx(2.0 * 126 / 127));
  CHECK(*p.overlap_8 == doctest::Approx(2.0 * 112 / 120));
  // Of the six pairs only two occur, half the time each, where independent ones would be 1/6 each: distance 2/3.
  CHECK(*p.affinity == doctest::Approx(2.0 / 3));
  CHECK_FALSE(p.next_layer);
  CHECK_FALSE(p.autocorrelation);
}

TEST_CASE("a layer that decides on the next is seen as affinity") {
  TraceProfiler profiler;
  profiler.begin(info_of(2, 4, 1), 1);
  std::vector<std::uint16_t> experts;
  for (int t = 0; t < 64; ++t) {
    experts.push_back(static_cast<std::uint16_t>(t % 4));
    experts.push_back(static_cast<std::uint16_t>((t + 1) % 4));
  }
  const std::vector<std::int32_t> sequence(64, 0);
  profiler.tokens({experts, {}, sequence, sequence});
  const TraceProfile p = profiler.finish();
  CHECK_FALSE(p.affinity);  // top-1 has no pairs within a layer
  // 4 of 16 pairs occur, a quarter of the time each, where independent ones would be 1/16 each: 4 * 3/16 = 3/4.
  CHECK(*p.next_layer == doctest::Approx(0.75));
}

TEST_CASE("load rows: autocorrelation of what alternates, and of what stays") {
  const auto autocorrelation = [](int period) {
    TraceProfiler profiler;
    profiler.begin(info_of(1, 2, 1), 1);
    for (int r = 0; r < 400; ++r) {
      const double hot = r / period % 2 == 0 ? 3 : 1;
      const std::vector<double> counts = {hot, 4 - hot};
      profiler.loads({counts, std::vector<std::int64_t>{4}});
    }
    return profiler.finish();
  };
  CHECK(*autocorrelation(1).autocorrelation == doctest::Approx(-1.0).epsilon(0.01));
  // Of every 100 successive rows, 99 pairs agree and one is opposite: 0.98.
  CHECK(*autocorrelation(100).autocorrelation == doctest::Approx(0.98).epsilon(0.01));
  CHECK(*autocorrelation(1).row_max_over_mean == 1.5);  // 3 of a mean of 2
}

TEST_CASE("load rows: what a row says does not depend on how many sources it is kept by") {
  const auto profile = [](int sources, const std::vector<std::vector<double>>& rows) {
    TraceProfiler profiler;
    profiler.begin(info_of(2, 2, 1), sources);
    for (const std::vector<double>& counts : rows) {
      profiler.loads({counts, std::vector<std::int64_t>(static_cast<std::size_t>(sources), 4)});
    }
    return profiler.finish();
  };
  // [layer][source][expert]: two sources that each use one expert alone, which takes twice the mean of the source.
  const TraceProfile apart = profile(2, {{4, 0, 0, 4, 4, 0, 0, 4}, {4, 0, 4, 0, 4, 0, 0, 4}, {4, 0, 0, 4, 4, 0, 4, 0}});
  const TraceProfile merged = profile(1, {{4, 4, 4, 4}, {8, 0, 4, 4}, {4, 4, 8, 0}});
  // Of the six sums two have all on one of two experts: (4 x 1 + 2 x 2) / 6.
  CHECK(*apart.row_max_over_mean == doctest::Approx(8.0 / 6));
  CHECK(*apart.row_max_over_mean == *merged.row_max_over_mean);
  CHECK(*apart.autocorrelation == *merged.autocorrelation);
  CHECK(compare(apart, merged).goodness == 1.0);
}

TEST_CASE("a trace compared with itself is alike in every line; with another it is not") {
  const auto profile = [](double sigma, Seed seed) {
    RoutingModel m = test::small_routing_model(2, 16, 2, sigma);
    TraceProfiler profiler;
    generate_tokens(RoutingLaw(m), {0, 20000}, seed, profiler);
    return profiler.finish();
  };
  const TraceProfile a = profile(0.8, Seed{1}), b = profile(0.8, Seed{2}), c = profile(0.1, Seed{2});
  CHECK(compare(a, a).goodness == 1.0);
  const ProfileComparison like = compare(a, b), unlike = compare(a, c);
  CHECK(like.goodness > 0.9);
  CHECK(unlike.goodness < like.goodness - 0.05);
  const std::string text = to_text(like);
  for (const char* part : {"max / mean expert load", "balancedness on 8 GPUs", "256 tokens in a row", "goodness"}) {
    CHECK(test::contains(text, part));
  }
  CHECK(test::contains(layers_to_text(a, b), "deviation"));
  // By hand: max / mean of layer 0 and 1, deviations averaged.
  const double first = std::abs(b.layers[0].max_over_mean / a.layers[0].max_over_mean - 1);
  const double second = std::abs(b.layers[1].max_over_mean / a.layers[1].max_over_mean - 1);
  CHECK(like.rows[0].deviation == doctest::Approx((first + second) / 2));
}

TEST_CASE("only traces of one shape are compared") {
  TraceProfiler a, b;
  a.begin(info_of(1, 4, 2), 1);
  b.begin(info_of(1, 8, 2), 1);
  const TraceProfile x = a.finish(), y = b.finish();
  CHECK(test::contains(test::message([&] { compare(x, y); }), "one shape"));
}

}  // namespace
}  // namespace epsim
