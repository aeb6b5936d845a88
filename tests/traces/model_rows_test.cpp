// Loads drawn from a routing model: its law, steps, counts and windows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "sim/core/vector_exp.h"
#include "sim/domain/affinity.h"
#include "tests/traces/model_support.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/routing_model/count_rounding.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/row_kernels.h"
#include "traces/routing_model/trace_profile.h"

namespace epsim {
namespace {

std::shared_ptr<const RoutingLaw> law_of(RoutingModel m) { return std::make_shared<const RoutingLaw>(std::move(m)); }

TEST_CASE("exp_lanes is the exponential, and clamps far out") {
  const auto exp_x4 = [](FloatX4 x) {
    exp_lanes<FloatX4, IntX4>(x);
    return x;
  };
  for (float x = -79.0F; x < 80.0F; x += 0.37F) {
    const FloatX4 y = exp_x4(FloatX4{x, -x, 0.0F, 1.0F});
    CHECK(static_cast<double>(y[0]) == doctest::Approx(std::exp(static_cast<double>(x))).epsilon(1e-5));
    CHECK(y[2] == 1.0F);
  }
  CHECK(exp_x4(FloatX4{} - 1e9F)[0] == exp_x4(FloatX4{} - 80.0F)[0]);
}

TEST_CASE("the root of each expert's chance, and the sum of their squares") {
  constexpr std::size_t kRowExperts = 48, kFactors = 3;
  RandomStream random(Seed{4}, "test");
  std::vector<float> shares(kRowExperts), slopes(kRowExperts), loadings(kRowExperts * kFactors), out(kRowExperts);
  for (std::vector<float>* values : {&shares, &slopes, &loadings}) {
    std::generate(values->begin(), values->end(), [&] { return static_cast<float>(random.normal()); });
  }
  const RowTables tables{shares.data(), slopes.data(), loadings.data(), kRowExperts};
  const std::vector<float> z = {0.3F, -1.2F, 2.5F};
  const float sum = row_roots(tables, z, 1.3F, out.data());
  double squares = 0;
  for (std::size_t e = 0; e < kRowExperts; ++e) {
    const std::size_t block = e / kWide * kWide * kFactors + e % kWide;  // [expert / kWide][factor][kWide]
    double x = static_cast<double>(shares[e] + slopes[e] * 1.3F);
    for (std::size_t f = 0; f < kFactors; ++f) {
      x += static_cast<double>(loadings[block + f * kWide] * z[f]);
    }
    CHECK(static_cast<double>(out[e]) == doctest::Approx(std::exp(0.5 * x)).epsilon(1e-5));
    squares += std::exp(x);
  }
  CHECK(static_cast<double>(sum) == doctest::Approx(squares).epsilon(1e-5));
}

TEST_CASE("several rows of noise at a time: the same bits as each alone") {
  constexpr std::size_t kRowExperts = 48;
  RandomStream random(Seed{4}, "test");
  std::vector<std::vector<float>> roots(9, std::vector<float>(kRowExperts));
  for (std::vector<float>& row : roots) {
    std::generate(row.begin(), row.end(), [&] { return static_cast<float>(random.uniform()); });
  }
  const auto check = [&](std::size_t count) {
    std::vector<std::vector<float>> wide(roots.begin(), roots.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<std::vector<float>> plain = wide;
    std::vector<NoisyRow> rows;
    for (std::size_t r = 0; r < count; ++r) {
      rows.push_back(
          {.values = wide[r].data(), .scale = 0.2F + 0.1F * static_cast<float>(r), .noise = 1e-3F, .key = 77 + r});
    }
    add_row_noise(rows, kRowExperts);
    for (std::size_t r = 0; r < count; ++r) {
      NoisyRow alone = rows[r];
      alone.values = plain[r].data();
      add_row_noise({&alone, 1}, kRowExperts);
      CHECK(wide[r] == plain[r]);
      CHECK(rows[r].total == alone.total);
      CHECK(rows[r].highest == alone.highest);
      CHECK(rows[r].highest == *std::max_element(wide[r].begin(), wide[r].end()));
    }
  };
  for (std::size_t count = 0; count <= roots.size(); ++count) {
    check(count);
  }
}

TEST_CASE("rows are scaled to their total, capped at 1") {
  // 4 + 2 + 1 + 1 to a total of 2: plain scaling gives the first exactly 1 (8 -> 2 is a quarter).
  std::vector<float> row = {4, 2, 1, 1};
  scale_capped(row, 2);
  CHECK(row == std::vector<float>{1, 0.5F, 0.25F, 0.25F});
  // 14 + 2 + 2 + 2 to 2: the first would be 1.4; it is 1, the others share 1.
  row = {14, 2, 2, 2};
  scale_capped(row, 2);
  CHECK(row[0] == 1.0F);
  CHECK(row[1] == doctest::Approx(1.0 / 3));
}

TEST_CASE("whole counts keep their sum, and their mean over rows") {
  const std::vector<float> row = {0.3F, 0.3F, 0.3F, 0.1F, 0.5F, 0.25F, 0.25F, 0.0F};
  std::vector<float> out(8);
  std::vector<double> sums(8, 0.0);
  constexpr int kRows = 64;
  for (int i = 0; i < kRows; ++i) {
    // Sums to 2 * (7 + i): the scaled row is no whole number anywhere.
    const float scale = static_cast<float>(7 + i);
    round_counts(row, scale, 2 * (7 + i), 1000.0F, static_cast<std::size_t>(i), out);
    CHECK(std::accumulate(out.begin(), out.end(), 0.0F) == 2.0F * scale);
    CHECK(out[7] == 0.0F);
    for (std::size_t e = 0; e < 8; ++e) {
      CHECK(out[e] == std::floor(out[e]));
      sums[e] += static_cast<double>(out[e] - row[e] * scale) / kRows;
    }
  }
  for (std::size_t e = 0; e < 8; ++e) {
    CHECK(std::abs(sums[e]) < 1);  // off by less than one assignment, on average as in each row
  }
  // Nothing exceeds the most: 3 of 4 tokens' assignments on an expert with room for no more.
  const std::vector<float> full = {1, 1, 0.5F, 0.5F};
  std::vector<float> capped(4);
  round_counts(full, 3, 9, 3.0F, 1, capped);
  CHECK(capped[0] <= 3.0F);
  CHECK(std::accumulate(capped.begin(), capped.end(), 0.0F) == 9.0F);
}

TEST_CASE("the mean over topics is the popularity") {
  RoutingModel m = test::small_routing_model(1, 30, 3, 0.8);  // 30: the last vector has padding
  m.domain_ratio = 0.5;
  const RoutingLaw law(m);
  std::vector<double> mean(30, 0.0);
  std::vector<float> row(law.stride());
  RandomStream random(Seed{3}, "test");
  constexpr int kTopics = 20000;
  const double variance = 1 + 0.25;
  Topic topic{std::vector<float>(law.factors()), static_cast<float>(variance)};
  for (int t = 0; t < kTopics; ++t) {
    for (float& z : topic.z) {
      z = static_cast<float>(std::sqrt(variance) * random.normal());
    }
    law.chances(0, topic, row);
    CHECK(std::accumulate(row.begin(), row.end(), 0.0F) == doctest::Approx(3.0));
    for (std::size_t e = 0; e < 30; ++e) {
      mean[e] += static_cast<double>(row[e]) / (3.0 * kTopics);
    }
  }
  // Deviation of a share is about 1.0 of it (e^(0.64 * 1.25) - 1 = 1.2, squared root 1.1): standard error 0.8 %, and
  // the calibration's own, over 512 paired topics, about 3 %.
  for (std::size_t e = 0; e < 30; ++e) {
    CHECK(mean[e] == doctest::Approx(law.popularity(0)[e]).epsilon(0.1));
  }
}

TEST_CASE("counts of a step: whole, summing to tokens x top-k, and at most the tokens") {
  const auto law = law_of(test::small_routing_model(3, 30, 4, 1.0));
  const ModelLoadSource source(law, false, Seed{1});
  const std::vector<std::int64_t> tokens = {1, 7, 0, 4096, 100000};
  std::vector<float> counts(3 * 5 * 30);
  for (int step = 0; step < 50; ++step) {
    source.draw_counts(step, tokens, counts);
    for (std::size_t row = 0; row < 15; ++row) {
      const std::span<const float> r(counts.data() + row * 30, 30);
      const auto n = static_cast<float>(tokens[row % 5]);
      CHECK(std::accumulate(r.begin(), r.end(), 0.0F) == 4 * n);
      for (const float x : r) {
        CHECK((x >= 0 && x <= n && x == std::floor(x)));
      }
    }
  }
}

TEST_CASE("a draw depends on seed and step alone, whoever asks") {
  const auto law = law_of(test::small_routing_model(2, 16, 2, 0.7));
  const ModelLoadSource a(law, false, Seed{1}), b(law, false, Seed{1}), c(law, false, Seed{2});
  const std::vector<std::int64_t> tokens = {512, 512};
  StepLoads first, again, other, threaded;
  a.draw(9, tokens, first);
  for (int step = 0; step < 9; ++step) {
    b.draw(step, tokens, again);
  }
  b.draw(9, tokens, again);
  c.draw(9, tokens, other);
  std::thread([&] { a.draw(9, tokens, threaded); }).join();
  CHECK(first.sources == 2);
  CHECK(first.per_token == again.per_token);
  CHECK(first.per_token == threaded.per_token);
  CHECK(first.per_token != other.per_token);
  // Sources have sequences of their own.
  CHECK(std::vector<float>(first.row(0, 0).begin(), first.row(0, 0).end()) !=
        std::vector<float>(first.row(0, 1).begin(), first.row(0, 1).end()));
}

TEST_CASE("ranks without tokens get the mean mix; ranks may be one mix") {
  const auto law = law_of(test::small_routing_model(1, 16, 2, 0.7));
  StepLoads loads;
  ModelLoadSource(law, false, Seed{1}).draw(0, std::vector<std::int64_t>{0, 64}, loads);
  CHECK(loads.row(0, 0)[0] == doctest::Approx(2 * law->popularity(0)[0]));
  ModelLoadSource(law, true, Seed{1}).draw(0, std::vector<std::int64_t>{0, 64}, loads);
  CHECK(loads.sources == 1);
}

TEST_CASE("every decode is a sequence of its own") {
  const auto source = [](double topic_tokens) {
    RoutingModel m = test::small_routing_model(2, 16, 2, 0.7);
    m.topic_tokens = topic_tokens;
    m.stretch_ratio = 0;
    return ModelLoadSource(law_of(m), true, Seed{1});
  };
  const auto drawn = [](const ModelLoadSource& from, std::int64_t tokens, std::int64_t decodes) {
    StepLoads out;
    from.draw_mixed(3, std::vector<std::int64_t>{tokens, 0}, std::vector<std::int64_t>{decodes, 0}, out);
    return out.per_token;
  };
  // 704 decodes are 704 sequences, as 704 tokens of prompts are where a sequence brings one token.
  CHECK(drawn(source(4096), 704, 704) == drawn(source(1), 704, 0));
  CHECK(drawn(source(4096), 704, 704) != drawn(source(4096), 704, 0));
  // A prompt of 300 tokens with 100 decodes spreads as 400^2 / (300^2 + 100) = 1.776 sequences do, which is what 400
  // tokens hold of sequences of 225.25.
  const std::vector<float> mixed = drawn(source(4096), 400, 100), equal = drawn(source(225.25), 400, 0);
  for (std::size_t e = 0; e < mixed.size(); ++e) {
    CHECK(mixed[e] == doctest::Approx(equal[e]).epsilon(1e-5));
  }
}

TEST_CASE("more sequences in a step, less skew; more steps per sequence, more correlation") {
  const auto profile = [](double topic_tokens, double topic_steps) {
    RoutingModel m = test::small_routing_model(4, 32, 4, 1.0);
    m.topic_tokens = topic_tokens;
    m.topic_steps = topic_steps;
    TraceProfiler profiler;
    generate_loads(RoutingLaw(m), {0, 300, 1, 4096}, Seed{5}, profiler);
    return profiler.finish();
  };
  const TraceProfile one = profile(4096, 1), many = profile(16, 1), slow = profile(4096, 20);
  CHECK(*one.row_max_over_mean > 1.2 * *many.row_max_over_mean);
  CHECK(std::abs(*one.autocorrelation) < 0.1);
  // Within 20 steps the topic turns a quarter circle: one step is cos(pi / 40) = 0.997.
  CHECK(*slow.autocorrelation > 0.9);
}

TEST_CASE("scenario sections of kind model: plan and run differ, and shapes are checked") {
  const MoeSpec model = test::deepseek_r1_shape();
  const auto section = [](const std::string& text) { return Config::from_text(text, "s.yaml").root(); };
  ConfigReader in =
      section("kind: model\npreset: deepseek-r1-prefill\nsteps: 4\nbatches: true\naffinity_tokens: 200\n");
  const LoadWindow plan = read_load_window(in, model, Seed{1});
  in.finish();
  CHECK(plan.layers() == 58);
  CHECK(plan.batches() == 4);
  REQUIRE(plan.affinity() != nullptr);
  double pairs = 0;
  for (const double x : plan.affinity()->layer(0)) {
    pairs += x;
  }
  CHECK(pairs == 200.0 * 8 * 7);               // every token, its ordered pairs of different experts
  CHECK(plan.total(0) == 4.0 * 8 * 4096 * 8);  // steps x sources x tokens x top-k
  ConfigReader run = section("kind: model\npreset: deepseek-r1-prefill\n");
  const auto source = make_load_source(run, model, Seed{1});
  run.finish();
  StepLoads loads;
  source->draw(0, std::vector<std::int64_t>(8, 4096), loads);
  CHECK(loads.sources == 8);
  const double planned = static_cast<double>(plan.batches_of(0, 0)[0]) / (8 * 4096);
  double drawn = 0;
  for (int s = 0; s < 8; ++s) {
    drawn += static_cast<double>(loads.row(0, s)[0]) / 8;
  }
  CHECK(planned != doctest::Approx(drawn).epsilon(1e-3));
  // The same model all the same. The plan's 32 mixes of one sequence each leave a share uncertain by about 1 / sqrt(32)
  // of it; the hottest expert's is within three of those of the popularity.
  const RoutingLaw law(routing_preset("deepseek-r1-prefill"));
  const auto hottest = std::max_element(law.popularity(0).begin(), law.popularity(0).end()) - law.popularity(0).begin();
  CHECK(plan.layer(0)[static_cast<std::size_t>(hottest)] / plan.total(0) ==
        doctest::Approx(law.popularity(0)[static_cast<std::size_t>(hottest)]).epsilon(0.5));

  ConfigReader wrong = section("kind: model\npreset: olmoe\n");
  CHECK(test::contains(test::message([&] { make_load_source(wrong, model, Seed{1}); }), "64 experts"));
  ConfigReader typo = section("kind: model\npreset: olmo\n");
  CHECK(test::contains(test::message([&] { make_load_source(typo, model, Seed{1}); }), "olmoe"));
}

}  // namespace
}  // namespace epsim
