// experiments/craft, grace and libra: their READMEs have what `epsim reproduce` prints today. The claims that are run
// again here are the cheap ones; they move with prices, loads and plans, as all others do.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/app/process.h"

using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::TempDir;

namespace {

// The README's row of a claim, "| G05 ... | paper | here |", against the claim's figures, one after another.
void check_rows(const std::string& paper, const std::string& claims, const char* format) {
  const TempDir dir;
  const auto folder = epsim::test::source_dir() / "experiments" / paper;
  const auto outcome =
      run_epsim(dir, "reproduce " + (folder / "claims.yaml").string() + " -q --only " + claims + " -o out");
  REQUIRE_MESSAGE(outcome.exit_code <= 1, outcome.err);  // 1: a claim is missed
  const std::string page = slurp(folder / "README.md");
  std::map<std::string, std::string> here;
  const auto document = nlohmann::json::parse(slurp(dir / "out/claims.json"));
  for (const auto& figure : document.at("claims")) {
    std::string& values = here[figure.at("claim")];
    values += (values.empty() ? "" : ", ") + fmt::format(fmt::runtime(format), figure.at("value").get<double>());
  }
  REQUIRE_FALSE(here.empty());
  for (const auto& [claim, values] : here) {
    const auto start = page.find("| " + claim + " ");
    REQUIRE_MESSAGE(start != std::string::npos, "the README has no row for ", claim);
    const std::string row = page.substr(start, page.find('\n', start) - start);
    CHECK_MESSAGE(row.find("| " + values) != std::string::npos, "it is ", values, " now, in ", row);
  }
}

}  // namespace

TEST_CASE("CRAFT's README has what the program prints") {
  check_rows("craft", "C05,C06,C13,C14,C15,C16,C23,C24", "{:.4g}");
}

TEST_CASE("GRACE-MoE's README has what the program prints") { check_rows("grace", "G05,G06,G07,G18", "{:.1f}"); }

TEST_CASE("Libra's README has what the program prints") { check_rows("libra", "L02", "{:.3f}"); }

TEST_CASE("Libra's README has the requests/s that compare gives") {
  const std::string page = slurp(epsim::test::source_dir() / "experiments/libra/README.md");
  for (const auto& [model, file] : {std::pair("Qwen3-235B", "qwen3-235b-h200"), std::pair("GLM-4.5", "glm-4.5-h200")}) {
    const TempDir dir;
    const auto outcome = run_epsim(dir, "compare " + (epsim::test::source_dir() / "experiments/libra" / file).string() +
                                            ".yaml -q --policies vanilla,eplb_static_hot,lina,libra -o out");
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    std::string row = fmt::format("| {} |", model);
    for (const char* policy : {"vanilla", "eplb_static_hot", "lina", "libra"}) {
      const auto summary = nlohmann::json::parse(slurp(dir / "out" / policy / "summary.json"));
      row += fmt::format(" {:#.4g} |", summary.at("throughput").at("requests_per_s").get<double>());
    }
    CHECK_MESSAGE(page.find(row) != std::string::npos, "not in the README: ", row);
  }
}
