// experiments/eplb-measured: the tables of its README are what the program says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::source_dir;
using epsim::test::TempDir;

namespace {

using Rates = std::map<std::string, double>;

// Requests/s by policy.
Rates simulated_rates(const std::string& skew, const std::string& drift) {
  const TempDir dir;
  const std::string file = (source_dir() / "experiments/eplb-measured/deepseek-v3-h100.yaml").string();
  const Outcome done =
      run_epsim(dir, fmt::format("compare '{0}' --policies contiguous,base,eplb16,eplb32,lplb0,lplb16,lplb32,waterfill,"
                                 "waterfill0,waterfill16,waterfill32 --seeds 3 -q --json --set 'loads.range=[{1},{1}]' "
                                 "--set 'plan_loads.range=[{1},{1}]' --set loads.drift={2} --set plan_loads.drift={2}",
                                 file, skew, drift));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  Rates rates;
  const auto told = nlohmann::json::parse(done.out);
  for (const auto& run : told["runs"]) {
    rates[run["policy"]] = run["over_seeds"]["requests_per_s"]["mean"];
  }
  return rates;
}

struct Gain {
  const char *what, *policy, *over;
};
constexpr Gain kGains[] = {{"placement (fitted)", "base", "contiguous"},
                           {"16 copies", "eplb16", "base"},
                           {"32 copies", "eplb32", "base"},
                           {"LPLB, no copies", "lplb0", "base"},
                           {"LPLB, 16 copies", "lplb16", "eplb16"},
                           {"LPLB, 32 copies (fitted)", "lplb32", "eplb32"},
                           {"Waterfill, not placed", "waterfill", "contiguous"},
                           {"Waterfill, placed", "waterfill0", "base"},
                           {"Waterfill, 16 copies", "waterfill16", "eplb16"},
                           {"Waterfill, 32 copies", "waterfill32", "eplb32"}};

// Tokens/s of the publication, by the policies' names here.
struct DataSet {
  const char *skew, *drift;
  Rates measured;
};
const DataSet kDataSets[] = {{"3.1",
                              "0.1",  // MMLU
                              {{"contiguous", 28968},
                               {"base", 30392},
                               {"eplb16", 30638},
                               {"eplb32", 30714},
                               {"lplb0", 29938},
                               {"lplb16", 31104},
                               {"lplb32", 31547},
                               {"waterfill", 29697},
                               {"waterfill0", 31424},
                               {"waterfill16", 31483},
                               {"waterfill32", 31169}}},
                             {"8.2",
                              "0.3",  // GSM8K
                              {{"contiguous", 29649},
                               {"base", 33058},
                               {"eplb16", 34026},
                               {"eplb32", 33988},
                               {"lplb0", 32744},
                               {"lplb16", 35474},
                               {"lplb32", 36482},
                               {"waterfill", 30892},
                               {"waterfill0", 34529},
                               {"waterfill16", 35226},
                               {"waterfill32", 35070}}},
                             {"6.2",
                              "0.03",  // GPQA
                              {{"contiguous", 23201},
                               {"base", 26322},
                               {"eplb16", 26124},
                               {"eplb32", 25975},
                               {"lplb0", 25899},
                               {"lplb16", 26350},
                               {"lplb32", 26193},
                               {"waterfill", 24283},
                               {"waterfill0", 26970},
                               {"waterfill16", 26683},
                               {"waterfill32", 26655}}}};

}  // namespace

TEST_CASE("the README's table of measured balancing has what the program simulates") {
  const std::string page = slurp(source_dir() / "experiments/eplb-measured/README.md");
  std::map<std::string, std::string> lines;
  for (const DataSet& set : kDataSets) {
    const Rates simulated = simulated_rates(set.skew, set.drift);
    for (const Gain& gain : kGains) {
      const auto percent = [&](const Rates& rates) { return (rates.at(gain.policy) / rates.at(gain.over) - 1) * 100; };
      lines[gain.what] += fmt::format(" {:+.1f} | {:+.1f} |", percent(set.measured), percent(simulated));
    }
  }
  for (const Gain& gain : kGains) {
    const std::string line = fmt::format("| {} |{}", gain.what, lines[gain.what]);
    CHECK_MESSAGE(page.find(line) != std::string::npos, "not in the README: ", line);
  }
}

TEST_CASE("one request in flight: deciding costs what the README says beside a measurement, LPLB more") {
  const TempDir dir;
  const std::string file = (source_dir() / "experiments/eplb-measured/deepseek-v3-h100.yaml").string();
  const Outcome done = run_epsim(
      dir, fmt::format(
               "compare '{}' --policies base,lplb0,waterfill,waterfill0 --seeds 1 -q --json --set dispatch.transport="
               "deepep_auto --set 'requests={{kind: closed_loop, concurrency: 1, count: 2, input_tokens: 1000, "
               "output_tokens: 60}}'",
               file));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  Rates rates;
  const nlohmann::json compared = nlohmann::json::parse(done.out);
  for (const auto& run : compared["runs"]) {
    rates[run["policy"]] = run["throughput"]["requests_per_s"];
  }
  const auto change = [&](const char* policy) { return (rates.at(policy) / rates.at("base") - 1) * 100; };
  // Measured: LPLB -24.5 %, Waterfill -11.3 %, with counts added up or not, which was not said.
  const std::string page = slurp(source_dir() / "experiments/eplb-measured/README.md");
  CHECK(page.find(fmt::format("| LPLB | -24.5 | {:.1f} |", change("lplb0"))) != std::string::npos);
  CHECK(page.find(fmt::format("not said) | {:.1f} |", change("waterfill"))) != std::string::npos);
  CHECK(page.find(fmt::format("own counts | | {:.1f} |", change("waterfill0"))) != std::string::npos);
  CHECK(change("waterfill") > change("lplb0"));
  CHECK(change("waterfill") < -11.3);
  CHECK(change("waterfill0") > -11.3);
  CHECK(change("waterfill0") < 0);
}
