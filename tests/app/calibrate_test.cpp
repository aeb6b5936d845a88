// `epsim calibrate`, and runs that insist on what was measured.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/app/process.h"
#include "tests/support/errors.h"

namespace epsim::test {
namespace {

TEST_CASE("a profile shows what it knows and how wrong it is") {
  const TempDir dir;
  const Outcome shown = run_epsim(dir, "calibrate show a100");
  CHECK(shown.exit_code == 0);
  check_contains(shown.out,
                 {"A100", "held-out points", "grouped_gemm, uneven groups", "aiconfigurator", " us  bytes "});
  const Outcome unknown = run_epsim(dir, "calibrate show a10");
  CHECK(unknown.exit_code == 2);
  check_contains(unknown.err, {"a100-sglang", "h200-sglang"});
  // A machine whose engines have fits of their own: all of them, one after the other.
  const Outcome by_engine = run_epsim(dir, "calibrate show h200");
  CHECK(by_engine.exit_code == 0);
  check_contains(by_engine.out,
                 {"machine h200-sglang", "machine h200-trtllm", "widths not seen", "sglang_fused_moe_triton"});
  CHECK(run_epsim(dir, "calibrate fitt x.h5").exit_code == 2);
  CHECK(run_epsim(dir, "calibrate show nothing.h5").exit_code == 2);
}

TEST_CASE("points are imported, fitted, compared and exported") {
  const TempDir dir;
  // InferSim's layout, with times of a made-up GPU: 5 us + m x n x k x 2 / 100 TF/s.
  std::filesystem::create_directories(dir / "bench/gemm/h800");
  std::filesystem::create_directories(dir / "bench/grouped_gemm/decode/h800");
  std::filesystem::create_directories(dir / "bench/grouped_gemm/prefill/h800");
  std::filesystem::create_directories(dir / "bench/mla/decode/h800");
  std::filesystem::create_directories(dir / "bench/mla/prefill/h800");
  std::ofstream gemm(dir / "bench/gemm/h800/data.csv");
  gemm << "m,k,n,latency_us,mfu\n";
  for (int m = 1; m <= 4096; m *= 2) {
    for (const int n : {512, 1024, 4096}) {
      gemm << m << ",1024," << n << "," << 5 + 2.0 * m * n * 1024 / 100e6 << ",0.5\n";
    }
  }
  gemm.close();
  const std::string grouped =
      "num_experts,num_gpus,num_local_experts,topk,hidden_size,intermediate_size,batch_size_per_gpu,tokens_per_expert,"
      "up_proj_us,up_mfu,down_proj_us,down_mfu\n256,8,32,8,7168,2048,16,4,325.291,0.010125,175.974,0.009189\n";
  std::ofstream(dir / "bench/grouped_gemm/decode/h800/data.csv") << grouped;
  std::ofstream(dir / "bench/grouped_gemm/prefill/h800/data.csv") << grouped;
  std::ofstream(dir / "bench/mla/decode/h800/128-512-64.csv") << "dtype,kv_dtype,batch_size,kv_len,latency_us,mfu\n";
  std::ofstream(dir / "bench/mla/prefill/h800/128-128-64.csv") << "dtype,seq_len,latency_us,mfu\n";
  const Outcome in = run_epsim(dir, "calibrate import infersim --machine h800 --from bench -o p.h5");
  CAPTURE(in.err);
  REQUIRE(in.exit_code == 0);
  check_contains(in.out, {"dense_gemm_fp8: 39 points over m, n, k", "Apache-2.0"});
  const Outcome fit = run_epsim(dir, "calibrate fit p.h5 -o fit");
  CAPTURE(fit.err);
  REQUIRE(fit.exit_code == 0);
  check_contains(fit.out, {"grouped_gemm_fp8: not fitted: 2 points", "dense_gemm_fp8"});
  check_contains(slurp(dir / "fit/errors.csv"), {"op,groups,points,median,p95,worst", "dense_gemm_fp8,,"});
  CHECK(run_epsim(dir, "calibrate compare fit/fit.yaml p.h5").exit_code == 0);
  const auto compared = nlohmann::json::parse(run_epsim(dir, "calibrate compare fit/fit.yaml p.h5 --json").out);
  CHECK(compared.at("errors").at(0).at("in_profile") == true);
  CHECK(compared.at("errors").at(0).at("points") > 0);
  REQUIRE(run_epsim(dir, "calibrate export p.h5 -o csv").exit_code == 0);
  check_contains(slurp(dir / "csv/dense_gemm_fp8.csv"), {"m,n,k,time_s,rel_error,repeats\n1,512,1024,"});
  CHECK(run_epsim(dir, "calibrate import infersim --machine h100 --from bench -o q.h5").exit_code == 2);
}

TEST_CASE("--strict-calibration refuses what was priced from other hardware's measurements") {
  const TempDir dir;
  const Outcome strict = run_epsim(dir, "run " + small_scenario() + " -q --strict-calibration -o out");
  CHECK(strict.exit_code == 2);
  check_contains(strict.err, {"strict-calibration", "outside what was measured"});
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
}

}  // namespace
}  // namespace epsim::test
