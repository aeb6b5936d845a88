#include "traces/expert_loads/window_load_source.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "sim/core/statistics.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/expert_loads/synthetic.h"
#include "traces/routing_model/byte_gaussian.h"

namespace epsim {
namespace {

LoadWindow window_of(std::vector<std::vector<double>> rows) {
  LoadWindow w(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()));
  for (std::size_t l = 0; l < rows.size(); ++l) {
    std::copy(rows[l].begin(), rows[l].end(), w.layer(static_cast<int>(l)).begin());
  }
  return w;
}

double row_sum(std::span<const float> row) { return std::accumulate(row.begin(), row.end(), 0.0); }

TEST_CASE("byte gaussian: mean 0, stated deviation, kurtosis -0.15, no correlation between draws and lanes") {
  RunningStats values, fourth, neighbour, serial;
  float last = 0;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    ByteGaussian draws(key);  // consecutive keys, as rows have
    for (int i = 0; i < 64; ++i) {
      const FloatX4 z = draws.next() / static_cast<float>(ByteGaussian::kDeviation);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        values.add(z[lane]);
        fourth.add(std::pow(z[lane], 4));
      }
      neighbour.add(z[0] * z[1]);
      serial.add(z[0] * last);
      last = z[0];
    }
  }
  // 256,000 values: standard errors 0.002 (mean), 0.0027 (variance), about 0.018 (fourth moment); products 0.004.
  CHECK(std::abs(values.mean()) < 0.01);
  CHECK(values.variance() == doctest::Approx(1.0).epsilon(0.014));
  CHECK(std::abs(fourth.mean() - 2.85) < 0.09);  // 3 - 1.2 / 8: uniform -1.2, divided by the eight summed
  CHECK(values.min() > -4.89);
  CHECK(values.max() < 4.89);
  CHECK(std::abs(neighbour.mean()) < 0.02);
  CHECK(std::abs(serial.mean()) < 0.02);
}

TEST_CASE("no variation, or no tokens: every step brings the mean mix") {
  const LoadWindow w = window_of({{1, 1, 2, 4}, {0, 1, 1, 0}});
  StepLoads out;
  const std::vector<std::int64_t> some{10, 20}, none{0, 0};
  for (const double overdispersion : {0.0, 1.0}) {
    const WindowLoadSource source(w, 2, overdispersion, Seed{1});
    source.draw(3, overdispersion > 0 ? none : some, out);
    CHECK(out.sources == 1);
    CHECK(out.row(0, 0)[0] == doctest::Approx(0.25));  // 1 of 8, top-2
    CHECK(out.row(0, 0)[3] == doctest::Approx(1.0));
    CHECK(out.row(1, 0)[0] == 0.0F);
    CHECK(out.row(1, 0)[1] == doctest::Approx(1.0));
  }
}

TEST_CASE("sampled: binomial mean and variance of every expert, row sums exact, never above 1") {
  LoadWindow w(1, 250);  // not a multiple of the block of 4
  const std::vector<double> shares = power_law_shares(250, power_law_exponent(250, 10.0));
  std::copy(shares.begin(), shares.end(), w.layer(0).begin());
  const int top_k = 8;
  const std::vector<std::int64_t> tokens{3000, 1096};
  for (const double overdispersion : {1.0, 4.0}) {
    const WindowLoadSource source(w, top_k, overdispersion, Seed{5});
    std::vector<RunningStats> seen(250);
    StepLoads out;
    for (std::int64_t step = 0; step < 4000; ++step) {
      source.draw(step, tokens, out);
      CHECK(row_sum(out.row(0, 0)) == doctest::Approx(8.0).epsilon(1e-6));
      for (std::size_t e = 0; e < seen.size(); ++e) {
        seen[e].add(out.row(0, 0)[e]);
      }
    }
    for (const std::size_t e : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{249}}) {
      CAPTURE(e);
      const double pi = shares[e] * top_k;
      const double variance = pi * (1 - pi) / 4096 * overdispersion;
      CHECK(seen[e].max() <= 1.0);
      CHECK(seen[e].mean() == doctest::Approx(pi).epsilon(5 * std::sqrt(variance / 4000) / pi));
      // The fixed row sum takes a share pi / top_k of the freedom away and adds a little of everybody's noise; a
      // variance from 4000 draws has a relative error of 2.2 %.
      CHECK(seen[e].variance() == doctest::Approx(variance).epsilon(e == 0 ? 0.15 : 0.1));
    }
  }
}

TEST_CASE("few tokens: rows stay within [0, 1] and sum to top-k") {
  const LoadWindow w = window_of({{8, 8, 8, 8, 8, 4, 2, 1, 0.5, 0.5}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}});
  const WindowLoadSource source(w, 6, 9.0, Seed{2});
  StepLoads out;
  for (std::int64_t step = 0; step < 500; ++step) {
    const std::vector<std::int64_t> tokens{1 + step % 3};
    source.draw(step, tokens, out);
    for (int l = 0; l < 2; ++l) {
      CHECK(row_sum(out.row(l, 0)) == doctest::Approx(6.0).epsilon(1e-5));
      for (const float x : out.row(l, 0)) {
        CHECK(x >= 0.0F);
        CHECK(x <= 1.0F);
      }
    }
  }
}

TEST_CASE("a draw depends on seed, step and tokens, not on what was drawn before") {
  const LoadWindow w = window_of({{1, 1, 2, 4}, {3, 1, 1, 2}});
  const WindowLoadSource source(w, 2, 1.0, Seed{1}), same(w, 2, 1.0, Seed{1}), other(w, 2, 1.0, Seed{2});
  const std::vector<std::int64_t> tokens{64}, split{32, 32};
  StepLoads a, b;
  source.draw(7, tokens, a);
  same.draw(3, tokens, b);
  same.draw(7, split, b);
  CHECK(a.per_token == b.per_token);
  other.draw(7, tokens, b);
  CHECK(a.per_token != b.per_token);
  source.draw(8, tokens, b);
  CHECK(a.per_token != b.per_token);
}

TEST_CASE("made from a scenario's section") {
  const Config config = Config::from_text("{kind: uniform, variation: none}", "loads.yaml");
  ConfigReader in = config.root();
  const auto source = make_load_source(in, test::small_model(3, 1, 4, 2), Seed{1});
  in.finish();
  CHECK(source->layers() == 2);
  StepLoads out;
  source->draw(0, std::vector<std::int64_t>{5}, out);
  CHECK(out.row(1, 0)[2] == 0.5F);
  ConfigReader bad = Config::from_text("{kind: uniform, variation: some}", "loads.yaml").root();
  CHECK(test::contains(test::message([&] { make_load_source(bad, test::small_model(3, 1, 4, 2), Seed{1}); }),
                       "unknown value 'some'"));
}

}  // namespace
}  // namespace epsim
