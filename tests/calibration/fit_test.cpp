// Fits of a made-up GPU whose times are known: 100 TF/s, 1 TB/s.
#include "calibration/fit.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "calibration/link_fit.h"
#include "calibration/profile_writer.h"
#include "models/catalogue/profiles.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

constexpr MachineRates kRates{100e12, 200e12, 1e12};

// time = 5 us + 1.25 x bytes / rate + 1.6 x products / peak, times e^(noise x normal).
PointTable dense_points(double noise) {
  PointTable table{"dense_gemm", {"m", "n", "k"}, {}, {}, {}, {}, {{"dtype", "bf16"}, {"kernel", "made up"}}};
  RandomStream random(Seed{1}, "fit test");
  for (double m = 1; m <= 16384; m *= 2) {
    for (const double n : {512.0, 1024.0, 4096.0}) {
      for (const double k : {512.0, 2048.0, 7168.0}) {
        const double bytes = (n * k + m * k + m * n) * 2;
        const double time = 5e-6 + 1.25 * bytes / 1e12 + 1.6 * 2 * m * n * k / 100e12;
        table.add(std::vector<double>{m, n, k}, time * std::exp(noise * random.normal()));
      }
    }
  }
  return table;
}

TEST_CASE("coefficients of exact points are found, and the held-out fifth is met") {
  const FittedOp fit = fit_op(dense_points(0), kRates, "a test");
  CHECK(fit.coefficients[0] == doctest::Approx(5.0).epsilon(1e-6));  // launches of a microsecond
  CHECK(fit.coefficients[1] == doctest::Approx(1.25).epsilon(1e-6));
  CHECK(fit.coefficients[2] == doctest::Approx(1.6).epsilon(1e-6));
  CHECK(fit.held_out.worst < 1e-6);
  CHECK(fit.held_out.points > 10);
  CHECK(fit.held_out.points < 60);  // about a fifth of 135
}

TEST_CASE("the stated error is that of points the fit has not seen") {
  PointTable points = dense_points(0.05);
  const FittedOp before = fit_op(points, kRates, "a test");
  // |e^x - 1| of a normal with 5 % deviation has its median at 0.0337 and its 95th percentile near 0.098.
  CHECK(before.held_out.median > 0.015);
  CHECK(before.held_out.median < 0.07);
  // Spoiling the held-out points changes no price, only the error.
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::vector<double> parameters{points.values[0][i], points.values[1][i], points.values[2][i]};
    points.time_s[i] *= is_held_out(parameters) ? 3.0 : 1.0;
  }
  const FittedOp after = fit_op(points, kRates, "a test");
  const std::vector<double> shape{100, 1000, 3000};
  CHECK(after.price(shape).time.count() == before.price(shape).time.count());
  CHECK(after.held_out.median > 0.6);
}

TEST_CASE("a price is interpolated inside the measured box and extrapolated outside it") {
  const FittedOp op = fit_op(dense_points(0), kRates, "a test");
  CHECK(op.price(std::vector<double>{100, 600, 600}).origin == Origin::kInterpolated);
  CHECK(op.price(std::vector<double>{16384, 4096, 7168}).origin == Origin::kInterpolated);
  CHECK(op.price(std::vector<double>{16385, 4096, 7168}).origin == Origin::kExtrapolated);
  CHECK(op.price(std::vector<double>{100, 256, 600}).origin == Origin::kExtrapolated);
  // The physical terms go on: twice the rows, nearly twice the time.
  const double far = op.price(std::vector<double>{1 << 20, 4096, 7168}).time.count();
  CHECK(op.price(std::vector<double>{1 << 21, 4096, 7168}).time.count() == doctest::Approx(2 * far).epsilon(1e-3));
}

TEST_CASE("uneven groups of a grouped GEMM have their own error, and unmeasured experts are extrapolated") {
  PointTable table{
      "grouped_gemm", {"rows", "groups", "rows_max", "hidden", "intermediate", "tokens"}, {}, {}, {}, {}, {}};
  for (const double groups : {4.0, 16.0, 64.0}) {
    for (double each = 1; each <= 4096; each *= 2) {
      for (const double skew : {1.0, 4.0}) {
        const double rows = each * groups;
        const double time = 20e-6 + groups * 3 * 1e6 * 2 / 1e12 + 6 * 1e6 * rows / 50e12;
        table.add(std::vector<double>{rows, groups, each * skew, 2000, 500, rows}, time);
      }
    }
  }
  const FittedOp fit = fit_op(table, kRates, "a test");
  CHECK(fit.held_out.median < 0.02);
  REQUIRE(fit.held_out_skewed.has_value());
  CHECK(fit.held_out_skewed->median < 0.02);
  CHECK(fit.price(std::vector<double>{320, 16, 40, 2000, 500, 320}).origin == Origin::kInterpolated);
  CHECK(fit.price(std::vector<double>{320, 16, 40, 1000, 1000, 320}).origin == Origin::kExtrapolated);
}

TEST_CASE("many rows for few groups are extrapolated where a table has few groups only with few rows") {
  // A whole model of 256 experts, top-8, on one GPU: t tokens touch min(256, 8 t) experts, with the rest of the rows on
  // the same ones. So 4 groups come with one row each, and 128 rows each only with all 256.
  PointTable table{
      "grouped_gemm", {"rows", "groups", "rows_max", "hidden", "intermediate", "tokens"}, {}, {}, {}, {}, {}};
  for (double rows = 4; rows <= 65536; rows *= 2) {
    for (const double skew : {1.0, 2.0}) {
      const double groups = std::min(256.0, rows), each = rows / groups;
      table.add(std::vector<double>{rows, groups, each * skew, 2000, 500, rows},
                20e-6 + groups * 3 * 1e6 * 2 / 1e12 + 6 * 1e6 * rows / 50e12);
    }
  }
  const FittedOp op = fit_op(table, kRates, "a test");
  const auto origin = [&](double groups, double each) {
    return op.price(std::vector<double>{groups * each, groups, each, 2000, 500, groups * each}).origin;
  };
  CHECK(origin(4, 1) == Origin::kInterpolated);
  CHECK(origin(256, 1) == Origin::kInterpolated);
  CHECK(origin(256, 100) == Origin::kInterpolated);
  CHECK(origin(4, 100) == Origin::kExtrapolated);  // inside the box of 4..256 groups and 1..256 rows each
  CHECK(origin(16, 200) == Origin::kExtrapolated);
}

// 16 of 128 experts, top-8, on a rank that has all tokens: of 8 assignments a token one is its own. The ranks' own experts take
// `few` times what they take alone up to 8 rows an expert, `many` times from 128 on.
FittedOp fit_of_ranks(double few, double many) {
  const auto own = [](double groups, double rows) {
    return 20e-6 + groups * 3 * 1e6 * 2 / 1e12 + 6 * 1e6 * rows / 50e12;
  };
  PointTable table{"grouped_gemm",
                   {"rows", "groups", "rows_max", "hidden", "intermediate", "tokens", "assignments", "experts"},
                   {},
                   {},
                   {},
                   {},
                   {}};
  for (const auto& [hidden, width] : {std::pair(2000.0, 500.0), std::pair(500.0, 2000.0)}) {
    for (double each = 1; each <= 4096; each *= std::sqrt(2)) {
      for (const double groups : {16.0, 64.0, 128.0}) {
        const double rows = each * groups;
        for (const double top_k : {2.0, 8.0}) {  // with one alone, tokens and rows could not be told apart
          table.add(std::vector<double>{rows, groups, each, hidden, width, rows / top_k, rows, 128}, own(groups, rows));
        }
        // 6 us, and of each other assignment three rows of the hidden size and one of the width, in bf16 at 1 TB/s.
        const double others = 7 * rows;
        const double remote = 6e-6 * others / (others + 30) + others * (3 * hidden + width) * 2 / 1e12;
        table.add(std::vector<double>{rows, groups, each, hidden, width, rows, 8 * rows, 128},
                  (few + (many - few) * weight_of_many(each)) * own(groups, rows) + remote);
      }
    }
  }
  return fit_op(table, kRates, "a test");
}

TEST_CASE("what other ranks' assignments take is fitted beside the ranks' own rows") {
  const FittedOp op = fit_of_ranks(1, 1);
  REQUIRE(op.remote_rows.has_value());
  CHECK(op.remote_rows->coefficients[0] == doctest::Approx(6).epsilon(0.05));
  CHECK(op.remote_rows->coefficients[1] == doctest::Approx(3).epsilon(0.05));
  CHECK(op.remote_rows->coefficients[2] == doctest::Approx(1).epsilon(0.2));
  CHECK(op.remote_rows->held_out.p95 < 0.05);
  // The ranks' points are no part of the fit for their own rows.
  CHECK(op.held_out.points + op.remote_rows->held_out.points < 130);
  const FittedProfile back =
      read_fitted_profile(Config::from_text(profile_yaml({"toy", "Toy", "", "", {op}}), "fit.yaml"));
  REQUIRE(back.ops.front().remote_rows.has_value());
  CHECK(back.ops.front().remote_rows->coefficients[1] ==
        doctest::Approx(op.remote_rows->coefficients[1]).epsilon(1e-5));
}

TEST_CASE("each size of experts has its own terms of ranks, which a profile keeps") {
  const FittedOp fitted = fit_of_ranks(1.2, 1.8);
  const FittedProfile back =
      read_fitted_profile(Config::from_text(profile_yaml({"toy", "Toy", "", "", {fitted}}), "fit.yaml"));
  for (const FittedOp* op : {&fitted, &back.ops.front()}) {
    for (const auto& [hidden, width] : {std::pair(2000.0, 500.0), std::pair(500.0, 2000.0)}) {
      const RankTerms terms = op->rank_terms(hidden, width);
      CHECK(terms.own_few == doctest::Approx(1.2).epsilon(0.05));
      CHECK(terms.own_many == doctest::Approx(1.8).epsilon(0.05));
      CHECK(terms.launch.count() == doctest::Approx(6e-6).epsilon(0.3));
      CHECK(terms.row.count() == doctest::Approx((3 * hidden + width) * 2 / 1e12).epsilon(0.05));
    }
  }
  CHECK(fitted.remote_rows->held_out.p95 < 0.05);
  const RankTerms terms{1.5, 2.5, 4_us, 0.002_us};
  CHECK(terms.time(10_us, 8, 0) == 10_us);  // no expert parallelism
  const auto time = [&](double each, double remote) { return terms.time(10_us, each, remote).count(); };
  CHECK(time(8, 30) == doctest::Approx(17.06e-6).epsilon(1e-9));    // 15 + 4 x 30 / (30 + 30) + 30 x 0.002
  CHECK(time(128, 30) == doctest::Approx(27.06e-6).epsilon(1e-9));  // 25
  CHECK(time(32, 30) == doctest::Approx(22.06e-6).epsilon(1e-9));   // 20, half the way from 2^3 to 2^7
}

TEST_CASE("repeated rows show the noise that no model can pass under") {
  PointTable table = dense_points(0);
  for (std::size_t i = 0; i < 20; ++i) {
    table.add(std::vector<double>{table.values[0][i], table.values[1][i], table.values[2][i]}, table.time_s[i] * 1.1);
  }
  const FittedOp op = fit_op(table, kRates, "a test");
  REQUIRE(op.noise.has_value());
  CHECK(op.noise->points == 20);
  CHECK(op.noise->median == doctest::Approx(0.1));
}

TEST_CASE("a fit is written and read back to the same prices") {
  FittedProfile profile{"toy", "Toy \"GPU\"", "CC0", "made up", {fit_op(dense_points(0.05), kRates, "a test")}};
  const FittedProfile back = read_fitted_profile(Config::from_text(profile_yaml(profile), "fit.yaml"));
  CHECK(back.gpu == profile.gpu);
  for (const double m : {1.0, 33.0, 500.0, 20000.0}) {
    const std::vector<double> shape{m, 1000, 3000};
    CHECK(back.ops[0].price(shape).time.count() ==
          doctest::Approx(profile.ops[0].price(shape).time.count()).epsilon(2e-3));  // factors are kept to 3 decimals
  }
  CHECK(back.ops[0].held_out.points == profile.ops[0].held_out.points);
  CHECK(profile_yaml(back) == profile_yaml(profile));
}

TEST_CASE("bad profiles are refused with the key that is wrong") {
  FittedProfile profile{"toy", "GPU", "", "", {fit_op(dense_points(0), kRates, "a test")}};
  const std::string good = profile_yaml(profile);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return std::string(
        test::error_of<InputError>([&] { read_fitted_profile(Config::from_text(text, "fit.yaml")); }).what());
  };
  test::check_contains(refused("version: 3", "version: 9"), {"fit.yaml", "version", "reads version 3"});
  test::check_contains(refused("op: dense_gemm", "op: dense_gem"), {"ops[0].op", "dense_gemm"});
  test::check_contains(refused("correction: \"", "correction: \"0 "), {"correction", "where the knots span"});
  test::check_contains(refused("correction: \"", "correction: \"0.5 "), {"correction", "whole thousandths"});
  test::check_contains(refused("correction: \"", "correction: \"10000 "), {"correction", "below 10000"});
  test::check_contains(refused("launch: ", "launch: -"), {"coefficients.launch"});
  test::check_contains(refused("supported: \"", "supported: \"1"), {"supported", "one 0 or 1 for every knot"});
  test::check_contains(refused("supported: \"1", "supported: \"2"), {"supported", "one 0 or 1 for every knot"});
  test::check_contains(refused("tile_rows:", "tile_row:"), {"tile_rows"});
}

TEST_CASE("operators that cannot be fitted are refused") {
  PointTable table = dense_points(0);
  table.op = "sampling";
  test::check_contains(test::error_of<InputError>([&] { fit_op(table, kRates, ""); }).what(),
                       {"sampling", "dense_gemm"});
  table = dense_points(0);
  table.columns[2] = "depth";
  test::check_contains(test::error_of<InputError>([&] { fit_op(table, kRates, ""); }).what(), {"no column 'k'"});
  table = dense_points(0);
  table.values[0][3] = 0;
  test::check_contains(test::error_of<InputError>([&] { fit_op(table, kRates, ""); }).what(), {"dense_gemm/m", "zero"});
  std::string notes;
  PointFile file;
  file.tables = {PointTable{"nccl_all_to_all", {"bytes"}, {{1}}, {1}, {0}, {1}, {}}};
  CHECK(fit_profile(file, kRates, [&](const std::string& note) { notes += note; }).ops.empty());
  test::check_contains(notes, {"nccl_all_to_all", "not fitted"});
}

// Expert FFNs of 256 experts whose weights are read at 1 TB/s behind 20 us; of widths 128 to 2048 in two hidden sizes.
PointTable expert_points(double narrow_takes) {
  PointTable table{
      "grouped_gemm", {"rows", "groups", "rows_max", "hidden", "intermediate", "tokens"}, {}, {}, {}, {}, {}};
  for (const double hidden : {2000.0, 4000.0}) {
    for (const double width : {128.0, 256.0, 512.0, 1024.0, 2048.0}) {
      for (double rows = 1; rows <= 65536; rows *= 2) {
        const double groups = std::min(256.0, rows), weights = hidden * width, narrow = width == 128 ? narrow_takes : 1;
        table.add(std::vector<double>{rows, groups, std::ceil(rows / groups), hidden, width, rows},
                  narrow * (20e-6 + groups * 3 * weights * 2 / 1e12 + 6 * weights * rows / 50e12));
      }
    }
  }
  return table;
}

TEST_CASE("errors on widths and hidden sizes that a fit has not seen are those of fits without them") {
  const FittedOp same = fit_op(expert_points(1), kRates, "a test");
  REQUIRE(same.held_out_width.has_value());
  REQUIRE(same.held_out_model.has_value());
  CHECK(same.held_out_width->points == 170);  // all of them, each once: 2 hidden sizes, 5 widths, 17 numbers of rows
  CHECK(same.held_out_model->points == 170);
  CHECK(same.held_out_width->p95 < 0.05);
  // Widths of 128 take three times as long: the fit that sees them knows, and one that does not is off by two thirds.
  const FittedOp odd = fit_op(expert_points(3), kRates, "a test");
  CHECK(odd.held_out.median < 0.05);
  CHECK(odd.held_out_width->worst > 0.5);
}

// Decode attention of an engine's kernel: 5 us and twice the KV cache's bytes.
PointTable decode_points() {
  PointTable table{"gqa_decode", {"batch", "length", "heads", "kv_heads", "head_dim"}, {}, {}, {}, {}, {}};
  for (double batch = 1; batch <= 64; batch *= 2) {
    for (double length = 64; length <= 8192; length *= 2) {
      table.add(std::vector<double>{batch, length, 32, 4, 128}, 5e-6 + 2 * batch * length * 2 * 4 * 128 * 2 / 1e12);
    }
  }
  return table;
}

TEST_CASE("attention that was not measured is that of the committed fit of the same GPU") {
  std::string notes;
  const auto fit = [&](const std::string& gpu, std::vector<PointTable> tables) {
    PointFile file;
    file.provenance.gpu = gpu;
    file.tables = std::move(tables);
    notes.clear();
    return fit_profile(file, kRates, [&](const std::string& note) { notes += note; });
  };
  FittedProfile committed = fitted_profile("h200-sglang");  // the first of the H200's; it lacks prompts of MLA
  committed.complete_from(fitted_profile("h200-trtllm"));
  const FittedProfile own = fit("NVIDIA H200", {dense_points(0)});
  CHECK(own.find("dense_gemm")->kernel == "made up");
  CHECK(own.find("grouped_gemm") == nullptr);  // attention alone is taken
  for (const char* op : {"mla_prefill", "mla_decode", "gqa_prefill", "gqa_decode"}) {
    CAPTURE(op);
    REQUIRE(own.find(op) != nullptr);
    const std::array<double, 5> place{4, 2048, 16, 4, 128};
    CHECK(own.find(op)->price(place).time == committed.find(op)->price(place).time);
    CHECK(own.find(op)->source == committed.find(op)->source);
  }
  test::check_contains(notes,
                       {"attention: not measured", "committed fit 'h200-sglang'", "committed fit 'h200-trtllm'"});
  test::check_contains(own.notes, {"committed fit 'h200-sglang'", "Apache-2.0"});

  CHECK(fit("NVIDIA B300", {dense_points(0)}).ops.size() == 1);
  test::check_contains(notes, {"no committed fit", "NVIDIA B300", "attention_prefill and attention_decode"});

  const FittedProfile brought = fit("NVIDIA H200", {dense_points(0), decode_points()});
  CHECK(brought.ops.size() == 2);  // attention of one's own is not mixed with others'
  CHECK(notes.empty());
}

TEST_CASE("least squares never takes a negative coefficient") {
  // b = 2 x column 0; column 1 would enter with -1 if it could.
  const std::vector<double> a{1, 1, 2, 3, 3, 2, 4, 1}, b{1, 1, 4, 7};
  const std::vector<double> x = non_negative_least_squares(a, b, 2);
  CHECK(x[1] == 0.0);
  CHECK(x[0] == doctest::Approx((1 + 2 + 12 + 28) / 30.0));  // a.b / a.a
}

TEST_CASE("a link is a latency and a share of its rate") {
  std::vector<double> bytes, times;
  for (double size = 512; size <= 1e9; size *= 2) {
    bytes.push_back(size);
    times.push_back(12e-6 + size / (0.8 * 50e9));
  }
  const LinkFit link = fit_link(bytes, times, 50e9);
  CHECK(link.alpha_s == doctest::Approx(12e-6));
  CHECK(link.efficiency == doctest::Approx(0.8));
  CHECK(link.held_out.worst < 1e-6);
}

}  // namespace
}  // namespace epsim
