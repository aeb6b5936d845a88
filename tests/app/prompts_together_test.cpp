// docs/validation.md, "Prompts together": what epsim says of vLLM's pull request 44558.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::source_dir;
using epsim::test::TempDir;

namespace {

nlohmann::json served(const TempDir& dir, int interval, const std::string& gaps) {
  const std::string folder = fmt::format("{}{}", interval, gaps.empty() ? "" : "-gaps");
  const Outcome done = run_epsim(
      dir, fmt::format("run '{}' -q -o {} --set serving.prefill_schedule_interval={}{}",
                       (source_dir() / "experiments/served/vllm-44558.yaml").string(), folder, interval, gaps));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  return nlohmann::json::parse(slurp(dir / (folder + "/summary.json")));
}

struct LatencyRow {
  const char *name, *key, *measured;
};
constexpr LatencyRow kLatencyRows[] = {{"ITL, median, ms", "itl_p50_ms", "275 / 32 (-88 %)"},
                                       {"ITL, mean, ms", "itl_mean_ms", "237 / 139 (-41 %)"},
                                       {"TPOT, mean, ms", "tpot_mean_ms", "241 / 140 (-42 %)"},
                                       {"TTFT, mean, ms", "ttft_mean_ms", "813 / 502 (-38 %)"},
                                       {"TTFT, P99, ms", "ttft_p99_ms", "2476 / 1475 (-40 %)"}};

}  // namespace

TEST_CASE("vLLM's prompts in every second step: the page's rows") {
  const TempDir dir;
  const std::string gaps = " --set serving.graph_gap=8ms --set serving.eager_gap=200ms";
  const nlohmann::json priced[] = {served(dir, 1, ""), served(dir, 2, "")};
  const nlohmann::json as_long[] = {served(dir, 1, gaps), served(dir, 2, gaps)};
  const std::string page = slurp(source_dir() / "docs/validation.md");
  const auto rate = [](const nlohmann::json& run) { return run.at("throughput").at("requests_per_s").get<double>(); };
  const std::string rates = fmt::format("| requests/s | 22.43 / 22.59 | {:.2f} / {:.2f} | {:.2f} / {:.2f} |",
                                        rate(priced[0]), rate(priced[1]), rate(as_long[0]), rate(as_long[1]));
  CHECK_MESSAGE(page.find(rates) != std::string::npos, rates);
  for (const LatencyRow& row : kLatencyRows) {
    const auto pair = [&](const nlohmann::json* by_interval) {
      const double one = by_interval[0].at("latency").at(row.key).get<double>(),
                   two = by_interval[1].at("latency").at(row.key).get<double>();
      return fmt::format("{:.0f} / {:.0f} ({:+.0f} %)", one, two, 100 * (two / one - 1));
    };
    const std::string line = fmt::format("| {} | {} | {} | {} |", row.name, row.measured, pair(priced), pair(as_long));
    CHECK_MESSAGE(page.find(line) != std::string::npos, line);
  }
}
