// `epsim validate --accuracy`: the committed facts hold, and a row that leaves its band shows.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/app/process.h"
#include "tests/support/errors.h"

namespace epsim::test {
namespace {

TEST_CASE("every row of the project's own facts is inside its band") {
  const TempDir dir;
  const Outcome out =
      run_epsim(dir, "validate --accuracy='" + (source_dir() / "experiments/validation").string() + "'");
  CAPTURE(out.out);
  CAPTURE(out.err);
  CHECK(out.exit_code == 0);
  check_contains(out.out, {"grouped_gemm, uneven groups", "4096 tokens over 32 ranks, balanced", "V02 prefill",
                           "V03 prefill", "worst row", "0 of "});
}

TEST_CASE("a row outside its band ends with exit code 1, unless it says why") {
  const TempDir dir;
  // 1 ms for a product that takes under 0.1 ms.
  const std::string row =
      "{what: wrong, machine: a100-sglang, op: dense_gemm, parameters: [64, 4096, 7168], measured_ms: 1, "
      "band: 0.2, source: made up";
  std::ofstream(dir / "facts.yaml") << "operators:\n  - " << row << "}\n";
  const Outcome left = run_epsim(dir, "validate --accuracy=.");
  const auto json = nlohmann::json::parse(run_epsim(dir, "validate --accuracy=. --json").out);
  CHECK(json.at("failures") == 1);
  CHECK(json.at("rows").at(0).at("inside") == false);
  CHECK(left.exit_code == 1);
  check_contains(left.out, {"wrong", "LEFT ITS BAND", "1 of 1 rows left"});
  std::ofstream(dir / "facts.yaml") << "operators:\n  - " << row << ", outside: a reason}\n";
  const Outcome stated = run_epsim(dir, "validate --accuracy=.");
  CHECK(stated.exit_code == 0);
  check_contains(stated.out, {"outside: a reason", "0 of 0 rows left their bands; 1 more"});
  for (const char* more : {"--policies eplb", "--set seed=2", "--seed 2", "--served points.csv"}) {
    const Outcome refused = run_epsim(dir, std::string("validate --accuracy=. ") + more);
    CHECK(refused.exit_code == 2);
    check_contains(refused.err, {"--accuracy"});
  }
  check_contains(run_epsim(dir, "validate --accuracy").err, {"experiments/validation", "in epsim's checkout"});
  std::ofstream(dir / "facts.yaml") << "operators:\n  - {machine: a100-sglang, op: dense_gem}\n";
  CHECK(run_epsim(dir, "validate --accuracy=.").exit_code == 2);
}

TEST_CASE("fp4 is priced on a B200 alone") {
  const TempDir dir;
  const std::string fp4 = "validate " + small_scenario() + " --set model.dtype=fp4 --set cluster.node=";
  const Outcome hopper = run_epsim(dir, fp4 + "DGX-H200");
  CHECK(hopper.exit_code == 2);
  check_contains(hopper.err, {"model.dtype is fp4", "no fp4 kernels of the H200 were measured", "B200"});
  CHECK(run_epsim(dir, fp4 + "p6-b200.48xlarge").exit_code == 0);
}

TEST_CASE("a model is priced in its checkpoint's type where its kernels were measured") {
  const TempDir dir;
  const std::string gpt_oss = "validate " + small_scenario() + " --set model.architecture=gpt-oss-120b";
  const Outcome ampere = run_epsim(dir, gpt_oss);
  CHECK(ampere.exit_code == 2);
  check_contains(ampere.err,
                 {"model.dtype is mxfp4, the model's own", "no mxfp4 kernels of the A100-80", "H100, H200 or B200"});
  CHECK(run_epsim(dir, gpt_oss + " --set model.dtype=bf16").exit_code == 0);
  CHECK(run_epsim(dir, gpt_oss + " --set cluster.node=DGX-H100").exit_code == 0);
  CHECK(run_epsim(dir, "validate " + small_scenario() + " --set model.dtype=int4").exit_code == 0);
}

TEST_CASE("fp8 is priced where its kernels were measured, and refused elsewhere") {
  const TempDir dir;
  const Outcome ampere = run_epsim(dir, "validate " + small_scenario() + " --set model.dtype=fp8");
  CHECK(ampere.exit_code == 2);
  check_contains(ampere.err, {"no fp8 kernels of the A100-80 were measured"});
  CHECK(
      run_epsim(dir, "validate " + small_scenario() + " --set model.dtype=fp8 --set cluster.node=DGX-H100").exit_code ==
      0);
}

}  // namespace
}  // namespace epsim::test
