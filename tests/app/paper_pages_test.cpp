// experiments/grace and experiments/libra: their READMEs have what `epsim reproduce` prints today. The claims that are run
// again here are the cheap ones; they move with prices, loads and plans, as all others do.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/process.h"

using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::TempDir;

namespace {

// The README's row of a claim, "| G05 ... | paper | here |", against the claim's figures, one after another.
void check_rows(const std::string& paper, const std::string& claims, const char* format) {
  const TempDir dir;
  const auto outcome = run_epsim(dir, "reproduce " + paper + " -q --only " + claims + " -o out");
  REQUIRE_MESSAGE(outcome.exit_code <= 1, outcome.err);  // 1: a claim is missed
  const std::string page = slurp(epsim::test::source_dir() / "experiments" / paper / "README.md");
  std::map<std::string, std::string> here;
  for (const auto& figure : nlohmann::json::parse(slurp(dir / "out/claims.json")).at("claims")) {
    std::string& values = here[figure.at("claim")];
    values += (values.empty() ? "" : ", ") + fmt::format(fmt::runtime(format), figure.at("value").get<double>());
  }
  for (const auto& [claim, values] : here) {
    const auto start = page.find("| " + claim + " ");
    REQUIRE_MESSAGE(start != std::string::npos, "the README has no row for ", claim);
    const std::string row = page.substr(start, page.find('\n', start) - start);
    CHECK_MESSAGE(row.find("| " + values) != std::string::npos, "it is ", values, " now, in ", row);
  }
}

}  // namespace

TEST_CASE("GRACE-MoE's README has what the program prints") { check_rows("grace", "G05,G06,G07,G18", "{:.1f}"); }

TEST_CASE("Libra's README has what the program prints") { check_rows("libra", "L02", "{:.3f}"); }
