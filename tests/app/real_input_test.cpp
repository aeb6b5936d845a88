// The main job on real input: Azure's conversation trace and DeepSeek-R1's expert loads as SGLang recorded them,
// planned on one workload and run on another.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::TempDir;

TEST_CASE("BASE or EPLB on ten minutes of Azure conversations, planned on 2K prompts and run on 4K prompts") {
  const TempDir dir;
  const std::string shared = epsim::test::shared_dir().string();
  const Outcome done = run_epsim(
      dir, fmt::format("compare '{0}/experiments/quickstart/deepseek-r1-p4de.yaml' --policies base,eplb -o out"
                       " --set 'requests={{kind: azure_csv, slice_length: 10min, time_scale: 0.5,"
                       " path: {1}/data/azure-llm-2023/AzureLLMInferenceTrace_conv.csv}}'"
                       " --set loads.path={1}/data/sglang-ep-statistics/prefill_in4096.json"
                       " --set plan_loads.path={1}/data/sglang-ep-statistics/prefill_in2048.json",
                       epsim::test::source_dir().string(), shared));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const auto summary = [&](const std::string& policy) {
    return nlohmann::json::parse(epsim::test::slurp(dir / ("out/" + policy + "/summary.json")));
  };
  const nlohmann::json base = summary("base"), eplb = summary("eplb");
  // 2,867 requests arrive in the first 600 s of the trace; all are served under both.
  CHECK(base.at("requests").at("completed_requests").get<int>() == 2867);
  CHECK(eplb.at("requests").at("completed_requests").get<int>() == 2867);
  // EXPERT_LOAD_STATS.csv: prefill_in4096 in contiguous placement has balancedness 0.302 on 64 GPUs; packing by the
  // loads of the 2K prompts must do better, copies better still.
  const double packed = base.at("balancedness").at("balancedness_mean").get<double>();
  const double copied = eplb.at("balancedness").at("balancedness_mean").get<double>();
  CHECK(packed > 0.302);
  CHECK(copied > packed);
  // 58 copies of 84 MiB = 4.758 GiB per GPU, 19 % of the pool.
  CHECK(eplb.at("kv").at("kv_copies_gib_per_gpu").get<double>() == doctest::Approx(4.758).epsilon(1e-3));
  CHECK(eplb.at("kv").at("kv_lost_to_copies_share").get<double>() == doctest::Approx(0.19).epsilon(0.02));
  CHECK(eplb.at("latency").at("e2e_mean_ms").get<double>() < base.at("latency").at("e2e_mean_ms").get<double>());
}
