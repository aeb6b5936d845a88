// experiments/eplb-measured: the table of its README is what the program says.
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

struct Gains {
  double placement = 0, copies16 = 0, copies32 = 0;  // %
};

Gains simulated_gains(const std::string& skew) {
  const TempDir dir;
  const std::string file = (source_dir() / "experiments/eplb-measured/deepseek-v3-h100.yaml").string();
  const Outcome done =
      run_epsim(dir, fmt::format("compare '{0}' --policies contiguous,base,eplb16,eplb32 --seeds 3 -q --json --set "
                                 "'loads.range=[{1},{1}]' --set 'plan_loads.range=[{1},{1}]'",
                                 file, skew));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  std::map<std::string, double> rates;
  const auto told = nlohmann::json::parse(done.out);
  for (const auto& run : told["runs"]) {
    rates[run["policy"]] = run["over_seeds"]["requests_per_s"]["mean"];
  }
  const auto gain = [&](const char* policy, const char* over) { return (rates[policy] / rates[over] - 1) * 100; };
  return {gain("base", "contiguous"), gain("eplb16", "base"), gain("eplb32", "base")};
}

}  // namespace

TEST_CASE("the README's table of measured EPLB has what the program simulates") {
  const std::string page = slurp(source_dir() / "experiments/eplb-measured/README.md");
  // Tokens/s of the publication: without EPLB, with 0, 16 and 32 copies.
  struct Row {
    const char *name, *skew;
    double off, copies0, copies16, copies32;
  };
  for (const Row& row :
       {Row{"MMLU", "2.6", 28968, 30392, 30638, 30714}, Row{"GSM8K", "5.2", 29649, 33058, 34026, 33988},
        Row{"GPQA", "6.2", 23201, 26322, 26124, 25975}}) {
    const Gains gains = simulated_gains(row.skew);
    const std::string line =
        fmt::format("| {} | {} | {:+.1f} | {:+.1f} | {:+.1f} | {:+.1f} | {:+.1f} | {:+.1f} |", row.name, row.skew,
                    (row.copies0 / row.off - 1) * 100, gains.placement, (row.copies16 / row.copies0 - 1) * 100,
                    gains.copies16, (row.copies32 / row.copies0 - 1) * 100, gains.copies32);
    CHECK_MESSAGE(page.find(line) != std::string::npos, "not in the README: ", line);
  }
}
