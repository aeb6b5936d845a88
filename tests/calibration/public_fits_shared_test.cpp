// The committed profiles are what the public tables fit to, and their errors are inside the bands they are held to.
#include <doctest/doctest.h>

#include <cmath>
#include <span>

#include "calibration/fit.h"
#include "calibration/import.h"
#include "calibration/row_counts.h"
#include "models/catalogue/profiles.h"
#include "sim/core/mapped.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

// Fits `op` of `machine` anew and compares with the committed one, at the fit's own points.
void check_committed(const std::string& collection, const std::string& machine, const std::string& op) {
  CAPTURE(machine);
  CAPTURE(op);
  const PointFile points = import_public(collection, machine, test::shared_dir() / "data" / collection, op);
  const FittedProfile profile = fitted_profile(machine);
  const FittedOp* committed = profile.find(op);
  REQUIRE(committed != nullptr);
  const PointTable& table = *points.find(op);
  const FittedOp fit =
      fit_op(table, {committed->rates.flops_per_s, committed->rates.flops_per_s, committed->rates.bytes_per_s},
             committed->source);
  CHECK(fit.rates.tile_rows == committed->rates.tile_rows);
  CHECK(fit.held_out.points == committed->held_out.points);
  CHECK(fit.held_out.median == doctest::Approx(committed->held_out.median).epsilon(0.05));
  CHECK(fit.held_out.p95 == doctest::Approx(committed->held_out.p95).epsilon(0.05));
  const OpInfo& info = op_info(fit.kind);
  const auto names = std::span(info.parameters).first(count_names(info.parameters));
  double worst = 0;
  for (std::size_t i = 0; i < table.size(); i += 7) {
    const auto parameters = mapped(names, [&](std::string_view name) { return table.values_of(name)[i]; });
    worst = std::max(worst, std::fabs(committed->price(parameters).time / fit.price(parameters).time - 1));
  }
  CHECK(worst < 0.01);  // the file keeps factors to 3 decimals
}

TEST_CASE("the committed fits are those of the public tables") {
  check_committed("aiconfigurator", "a100-sglang", "grouped_gemm");
  check_committed("aiconfigurator", "a100-trtllm", "mla_decode");
  check_committed("aiconfigurator", "h200-trtllm", "mla_prefill");
  check_committed("aiconfigurator", "h200-sglang", "grouped_gemm_fp8");
  check_committed("aiconfigurator", "b200-sglang", "mla_decode_fp8");
  check_committed("infersim", "h800", "grouped_gemm_fp8");
  check_committed("infersim", "h800", "mla_decode");
}

TEST_CASE("the straggler of 4096 tokens over 32 ranks follows from even groups and the routing that was drawn") {
  const FittedProfile profile = fitted_profile("h200-deepep");
  const FittedOp& op = *profile.find("grouped_gemm_fp8");
  // The source measured rank 0, the busiest, over five draws: 0.220, 0.503 and 0.625 ms.
  const auto predicted = [&](double alpha) {
    const RoutingShape shape{4096, 256, 8, 32};
    RandomStream random(Seed{7}, "straggler");
    const int draws = alpha == 0 ? 1 : 200;
    double sum = 0;
    for (int i = 0; i < draws; ++i) {
      const auto rows = alpha == 0 ? balanced_rows(shape) : power_law_drawn(shape, alpha, random);
      const GroupRows busiest = summarise_rows(busiest_rank(rows, shape.ranks));
      sum += op.price(std::array{busiest.rows, busiest.groups, busiest.rows_max, 7168.0, 2048.0, 4096.0}).time.count();
    }
    return sum / draws * 1e3;
  };
  CHECK(predicted(0) == doctest::Approx(0.220).epsilon(0.15));
  CHECK(predicted(1.01) == doctest::Approx(0.503).epsilon(0.15));
  CHECK(predicted(1.2) == doctest::Approx(0.625).epsilon(0.15));
}

}  // namespace
}  // namespace epsim
