// The points that epsim-calibrate measured on an H200 (calibration/measured/h200.h5), against fits of public tables that
// have not seen them, and the figures of calibration/README.md that come from them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "calibration/fit.h"
#include "calibration/points.h"
#include "models/catalogue/catalogue.h"
#include "models/catalogue/profiles.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

const PointFile& measured() {
  static const PointFile points = read_points((test::source_dir() / "calibration/measured/h200.h5").string());
  return points;
}

ErrorSummary errors_of(const char* machine, const char* op_name) {
  const FittedProfile profile = fitted_profile(machine);
  const FittedOp* op = profile.find(op_name);
  REQUIRE(op != nullptr);
  const PointTable& table = measured().table(op_name);
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

// Median of what a product of up to 512 rows takes longer here than by the table's fit, in us; weights in MiB.
double longer_us(const char* machine, double least_mib, double most_mib) {
  const FittedProfile profile = fitted_profile(machine);
  const PointTable& table = measured().table("dense_gemm");
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
    const PointTable& table = measured().table(op);
    const std::vector<double>& flops = table.values_of("flops");
    for (std::size_t i = 0; i < table.size(); ++i) {
      CHECK(flops[i] / table.time_s[i] < gpu.bf16_peak.count());
    }
  }
}

TEST_CASE("one product per group beats cuBLAS's grouped call from 512 rows a group on, and loses below 128") {
  const PointTable& table = measured().table("grouped_gemm");
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
