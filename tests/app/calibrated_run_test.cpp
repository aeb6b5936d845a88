// From a device to a priced run: a simulated GPU is measured, its points are fitted, and a scenario on a node of such
// GPUs is priced from the fit.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/app/process.h"
#include "tests/calibration/fake_sweep.h"

namespace epsim::test {
namespace {

const std::string kOps =
    "grouped_gemm,dense_gemm,gate,norm,permute,unpermute,device_copy,nccl_all_to_all,nccl_all_gather,"
    "nccl_reduce_scatter";

// A node of eight such GPUs on links of 10 GB/s: its compute profile is the A100's with the fit in place of the A100's
// own, its links' profile is the fit's.
void write_node(const TempDir& dir) {
  std::string compute = slurp(source_dir() / "models/hardware/compute/a100.yaml");
  const std::size_t at = compute.find("kernels:"), end = compute.find("\n\n", at);
  REQUIRE(at != std::string::npos);
  REQUIRE(end != std::string::npos);
  compute.replace(at, end - at, "fitted: " + (dir / "fit/fit.yaml").string());
  std::ofstream(dir / "compute.yaml") << compute;
  std::ofstream(dir / "node.yaml") << fmt::format(
      "base: p4de.24xlarge\nsummary: eight simulated GPUs\nintra_rate: 10GB/s\nintra_profile: {}\n"
      "sources: {{intra_rate: simulated}}\ngpu_spec:\n  name: Fake-1000\n  summary: simulated\n"
      "  bf16: 312TF/s\n  memory: 80GiB\n  memory_bandwidth: 1000GB/s\n  compute_profile: {}\n"
      "  sources: {{bf16: simulated, memory: simulated, memory_bandwidth: simulated}}\n",
      (dir / "fit/links-intra.yaml").string(), (dir / "compute.yaml").string());
}

// Seconds of a run's steps in gates, dispatch and experts. Requests are far apart: each is alone, however fast the GPU.
std::array<double, 3> priced_parts(const TempDir& dir) {
  const Outcome run = run_epsim(dir, "run " + small_scenario() +
                                         " -q --set serving.launch_time=0s --set requests.rate=0.01/s"
                                         " --set cluster.nodes=1 --set cluster.node=" +
                                         (dir / "node.yaml").string() + " -o out");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const nlohmann::json summary = nlohmann::json::parse(slurp(dir / "out/summary.json"));
  const nlohmann::json& of_run = summary.contains("runs") ? summary["runs"][0] : summary;
  const nlohmann::json& origins = of_run["time_by_origin"];
  // The rest: a single token puts less than a row on most GPUs, and nobody measures less than a row.
  CHECK(origins["measured_share"].get<double>() + origins["interpolated_share"].get<double>() > 0.8);
  CHECK(origins["spec_sheet_share"] == 0.0);
  CHECK(of_run["carried_over"].empty());
  const nlohmann::json& parts = of_run["time_by_part"];
  return {parts["gate_s"].get<double>(), parts["dispatch_s"].get<double>(), parts["experts_s"].get<double>()};
}

// A product of 64 x 2048 x 2048: 2 (64 x 2048 + 2048 x 2048 + 64 x 2048) bytes at 1 TB/s are 8.91 us, its 5.4e8 flops
// take less, and a launch takes 2 us.
void check_product(const TempDir& dir, double slower) {
  std::ofstream(dir / "facts.yaml") << fmt::format(
      "operators:\n  - {{what: product, machine: {}, op: dense_gemm, parameters: [64, 2048, 2048], measured_ms: {},\n"
      "     band: 0.1, source: simulated}}\n",
      (dir / "fit/fit.yaml").string(), 10.91e-3 * slower);
  const Outcome table = run_epsim(dir, "validate --accuracy=.");
  CAPTURE(table.out);
  CAPTURE(table.err);
  CHECK(table.exit_code == 0);
}

TEST_CASE("a device is measured, its points fitted, and a run priced from the fit") {
  std::array<double, 3> seconds[2] = {};
  for (const int i : {0, 1}) {
    const double slower = i == 0 ? 1 : 3;
    const TempDir dir;
    REQUIRE(measure_fake({"--full", "--only", kOps, "--models", "olmoe-1b-7b"}, dir / "points.h5", slower, 8) == 0);
    const Outcome fit = run_epsim(dir,
                                  "calibrate fit points.h5 -o fit --bf16 312TF/s --fp8 312TF/s --bandwidth 1000GB/s "
                                  "--link-rate 10GB/s");
    CAPTURE(fit.err);
    REQUIRE(fit.exit_code == 0);
    CHECK(fit.out.find("attention: not measured, and there is no committed fit of this GPU ('NVIDIA Fake-1000')") !=
          std::string::npos);
    check_product(dir, slower);
    write_node(dir);
    seconds[i] = priced_parts(dir);
  }
  // All kernels take three times as long, and so do the run's.
  for (const std::size_t part : {0, 1, 2}) {
    CHECK(seconds[0][part] > 0);
    CHECK(seconds[1][part] == doctest::Approx(3 * seconds[0][part]).epsilon(0.02));
  }
}

}  // namespace
}  // namespace epsim::test
