// The points that epsim-calibrate measured on an H200 and an H100 (calibration/measured), against fits of public tables
// that have not seen them, and the figures of calibration/README.md that come from them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "calibration/fit.h"
#include "calibration/points.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/profiles.h"
#include "tests/support/paths.h"
#include "traces/format/csv.h"

namespace epsim {
namespace {

PointFile points_of(const char* file) {
  return read_points((test::source_dir() / "calibration/measured" / file).string());
}

const PointFile& measured() {
  static const PointFile points = points_of("h200.h5");
  return points;
}

ErrorSummary errors_of(const char* machine, const char* op_name, const PointFile& points = measured()) {
  const FittedProfile profile = fitted_profile(machine);
  const FittedOp* op = profile.find(op_name);
  REQUIRE(op != nullptr);
  const PointTable& table = *points.find(op_name);
  std::vector<double> errors;
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::vector<double> parameters;
    for (std::size_t c = 0; c < count_names(op_info(op->kind).parameters); ++c) {
      parameters.push_back(table.values_of(op_info(op->kind).parameters[c])[i]);
    }
    errors.push_back(std::abs(op->price(parameters).time.count() / table.time_s[i] - 1));
  }
  return summarise_errors(std::move(errors));
}

TEST_CASE("public tables' dense GEMM of an H200 is what another H200 and other code measured") {
  const ErrorSummary trtllm = errors_of("h200-trtllm", "dense_gemm"), sglang = errors_of("h200-sglang", "dense_gemm");
  CHECK(trtllm.points == 1016);
  CHECK(trtllm.median == doctest::Approx(0.052).epsilon(0.01));  // the README's figures
  CHECK(trtllm.p95 == doctest::Approx(0.22).epsilon(0.03));
  CHECK(sglang.median == doctest::Approx(0.065).epsilon(0.01));
  CHECK(sglang.p95 == doctest::Approx(0.21).epsilon(0.03));
  CHECK(errors_of("h200-vllm", "grouped_gemm").median == doctest::Approx(0.22).epsilon(0.03));
}

TEST_CASE("so is the tables' dense GEMM of an H100") {
  const PointFile h100 = points_of("h100.h5");
  const ErrorSummary trtllm = errors_of("h100-trtllm", "dense_gemm", h100);
  const ErrorSummary sglang = errors_of("h100-sglang", "dense_gemm", h100);
  CHECK(trtllm.points == 847);
  CHECK(trtllm.median == doctest::Approx(0.044).epsilon(0.015));
  CHECK(trtllm.p95 == doctest::Approx(0.30).epsilon(0.03));
  CHECK(sglang.median == doctest::Approx(0.051).epsilon(0.01));
  CHECK(sglang.p95 == doctest::Approx(0.26).epsilon(0.03));
  CHECK(errors_of("h100-vllm", "grouped_gemm", h100).median == doctest::Approx(0.28).epsilon(0.03));
}

// One H100's points against one H200's, of the same shapes: as many multiplications a second, 4.8 / 3.35 = 1.43 times
// fewer bytes (data sheets). "Reads memory" and "multiplies": half of the H200's rate or more.
TEST_CASE("an H100 multiplies as fast as an H200, and reads memory by the ratio of their data sheets") {
  const PointFile h100 = points_of("h100.h5");
  const auto key = [](const PointTable& table, std::size_t i) {
    return std::array{table.values_of("m")[i], table.values_of("n")[i], table.values_of("k")[i]};
  };
  const PointTable &a = *h100.find("dense_gemm"), &b = *measured().find("dense_gemm");
  std::map<std::array<double, 3>, double> time_on_h100;
  for (std::size_t i = 0; i < a.size(); ++i) {
    time_on_h100[key(a, i)] = a.time_s[i];
  }
  std::vector<double> reading, multiplying;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto found = time_on_h100.find(key(b, i));
    if (found == time_on_h100.end()) {
      continue;
    }
    const double ratio = found->second / b.time_s[i];
    if (b.values_of("bytes_moved")[i] / b.time_s[i] >= 2.4e12) {
      reading.push_back(ratio);
    } else if (b.values_of("flops")[i] / b.time_s[i] >= 0.5 * 989e12) {
      multiplying.push_back(ratio);
    }
  }
  const auto median = [](std::vector<double>& ratios) {
    std::sort(ratios.begin(), ratios.end());
    return ratios.at(ratios.size() / 2);
  };
  CHECK(median(reading) == doctest::Approx(1.37).epsilon(0.005));
  CHECK(median(multiplying) == doctest::Approx(1.02).epsilon(0.005));
}

// Tables' time over the points', in the median: products of 150 us and more above half of the peak.
double long_products(const char* machine, const PointFile& points) {
  const FittedProfile profile = fitted_profile(machine);
  const PointTable& table = *points.find("dense_gemm");
  std::vector<double> ratios;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table.time_s[i] >= 150e-6 && table.values_of("flops")[i] / table.time_s[i] >= 0.5 * 989e12) {
      const std::array product{table.values_of("m")[i], table.values_of("n")[i], table.values_of("k")[i]};
      ratios.push_back(profile.find("dense_gemm")->price(product).time.count() / table.time_s[i]);
    }
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios.at(ratios.size() / 2);
}

TEST_CASE("long products of public tables take longer than our short bursts") {
  CHECK(long_products("h200-trtllm", measured()) == doctest::Approx(1.06).epsilon(0.005));
  CHECK(long_products("h200-sglang", measured()) == doctest::Approx(1.12).epsilon(0.005));
  CHECK(long_products("h100-trtllm", points_of("h100.h5")) == doctest::Approx(1.05).epsilon(0.005));
  CHECK(long_products("h100-sglang", points_of("h100.h5")) == doctest::Approx(1.07).epsilon(0.005));
}

// Median over products of one column over another; [numbers] of each, rows from `least` to `most`.
double sustained(const char* file, bool fp8, std::array<const char*, 2> numbers, std::array<const char*, 2> columns,
                 double least = 512, double most = 1e9) {
  ByteInput input(test::source_dir() / "calibration/measured" / file);
  CsvReader csv(input);
  std::map<std::array<double, 3>, std::array<double, 2>> products;
  while (csv.next()) {
    const auto number = [&](const char* column) { return csv.number(csv.column(column)); };
    if ((number("fp8") > 0) == fp8 && number("m") >= least && number("m") <= most) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (csv.text(csv.column("numbers")) == numbers[i]) {
          products[{number("m"), number("k"), number("n")}][i] = number(columns[i]);
        }
      }
    }
  }
  std::vector<double> ratios;
  for (const auto& [product, us] : products) {
    ratios.push_back(us[0] / us[1]);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t half = ratios.size() / 2;
  return ratios.size() % 2 == 1 ? ratios.at(half) : (ratios.at(half - 1) + ratios.at(half)) / 2;
}

TEST_CASE("sustained products take longer than points, by numbers and by the power cap, unless they read memory") {
  struct Row {
    const char* file;
    bool fp8;
    double timer, numbers, cap, all;  // the README's figures
  };
  for (const Row& r : {Row{"h100-sustained.csv", false, 0.99, 1.04, 1.10, 1.14},
                       Row{"h100-sustained.csv", true, 1.02, 1.07, 1.11, 1.19},
                       Row{"h200-sustained.csv", false, 1.02, 1.05, 1.15, 1.23},
                       Row{"h200-sustained.csv", true, 1.06, 1.07, 1.17, 1.30}}) {
    CAPTURE(r.file);
    const auto held = [&](std::array<const char*, 2> numbers, std::array<const char*, 2> columns, double figure) {
      CHECK(sustained(r.file, r.fp8, numbers, columns) == doctest::Approx(figure).epsilon(0.003));
    };
    held({"grid", "grid"}, {"after_10_ms", "point_us"}, r.timer);
    held({"normal", "grid"}, {"after_10_ms", "after_10_ms"}, r.numbers);
    held({"grid", "grid"}, {"after_400_ms", "after_10_ms"}, r.cap);
    held({"normal", "grid"}, {"after_400_ms", "point_us"}, r.all);
    CHECK(sustained(r.file, r.fp8, {"grid", "grid"}, {"after_400_ms", "after_10_ms"}, 1, 64) ==
          doctest::Approx(1).epsilon(0.005));
  }
}

// Median of what a product of up to 512 rows takes longer here than by the table's fit, in us; weights in MiB.
double longer_us(const char* machine, double least_mib, double most_mib) {
  const FittedProfile profile = fitted_profile(machine);
  const PointTable& table = *measured().find("dense_gemm");
  std::vector<double> differences;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::array product{table.values_of("m")[i], table.values_of("n")[i], table.values_of("k")[i]};
    const double mib = product[1] * product[2] * 2 / 1024 / 1024;
    if (product[0] <= 512 && mib >= least_mib && mib < most_mib) {
      differences.push_back((table.time_s[i] - profile.find("dense_gemm")->price(product).time.count()) * 1e6);
    }
  }
  std::sort(differences.begin(), differences.end());
  return differences.at(differences.size() / 2);
}

TEST_CASE("what public tables took with weights in the L2 takes longer from memory") {
  CHECK(longer_us("h200-sglang", 0, 8) == doctest::Approx(0.8).epsilon(0.15));
  CHECK(longer_us("h200-trtllm", 0, 8) == doctest::Approx(1.2).epsilon(0.1));
  for (const char* machine : {"h200-sglang", "h200-trtllm"}) {
    CHECK(longer_us(machine, 12, 50) == doctest::Approx(0.3).epsilon(0.4));
  }
}

TEST_CASE("no point is above the data sheet of an H200") {
  const GpuSpec gpu = find_gpu("H200").spec;
  for (const char* op : {"dense_gemm", "grouped_gemm", "norm", "permute"}) {
    const PointTable& table = *measured().find(op);
    const std::vector<double>& flops = table.values_of("flops");
    for (std::size_t i = 0; i < table.size(); ++i) {
      CHECK(flops[i] / table.time_s[i] < gpu.bf16_peak.count());
    }
  }
}

TEST_CASE("one product per group beats cuBLAS's grouped call from 512 rows a group on, and loses below 128") {
  const PointTable& table = *measured().find("grouped_gemm");
  CHECK(table.attributes.at("kernels") == "cublaslt_per_group,cublas_grouped");
  const auto at = [&](const char* column, std::size_t i) { return table.values_of(column)[i]; };
  double most_grouped = 0, least_wide = 1, least_narrow = 1, most_per_group = 0;  // of the peak
  int many = 0, many_won = 0, few = 0, few_won = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const bool per_group = at("kernel", i) == 0;
    const double share = at("flops", i) / (per_group ? at("other_s", i) : table.time_s[i]) / 989e12;
    most_grouped = std::max(most_grouped, share);
    const double rows = at("rows", i) / at("groups", i);
    if (at("distribution", i) == 0 && at("groups", i) >= 4) {
      if (rows >= 512) {
        const double alone = at("flops", i) / (per_group ? table.time_s[i] : at("other_s", i)) / 989e12;
        double& least = at("hidden", i) >= 4096 ? least_wide : least_narrow;
        least = std::min(least, alone);
        most_per_group = std::max(most_per_group, alone);
      }
      many += rows >= 512 ? 1 : 0;
      many_won += rows >= 512 && per_group ? 1 : 0;
      few += rows < 128 ? 1 : 0;
      few_won += rows < 128 && per_group ? 1 : 0;
    }
  }
  CHECK(most_grouped < 0.35);
  CHECK(least_wide == doctest::Approx(0.556).epsilon(0.01));
  CHECK(least_narrow == doctest::Approx(0.288).epsilon(0.01));
  CHECK(most_per_group == doctest::Approx(0.809).epsilon(0.01));
  CHECK(many_won > 0.95 * many);
  CHECK(few_won < 0.15 * few);
}

}  // namespace
}  // namespace epsim
