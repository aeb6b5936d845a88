// experiments/craft, grace and libra: their READMEs have what `epsim reproduce` prints today. Of CRAFT's and GRACE-MoE's
// claims the cheap ones are run again here; they move with prices, loads and plans, as all others do.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/app/process.h"

using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::TempDir;

namespace {

nlohmann::json figures_of(const std::string& paper, const std::string& only) {
  const TempDir dir;
  const auto claims = epsim::test::source_dir() / "experiments" / paper / "claims.yaml";
  const auto outcome = run_epsim(dir, "reproduce " + claims.string() + " -q " + only + " -o out");
  REQUIRE_MESSAGE(outcome.exit_code <= 1, outcome.err);  // 1: a claim is missed
  return nlohmann::json::parse(slurp(dir / "out/claims.json")).at("claims");
}

std::string readme(const std::string& folder) {
  return slurp(epsim::test::source_dir() / "experiments" / folder / "README.md");
}

// The README's row of a claim, "| C05 ... | paper | here |", against the claim's figures, one after another.
void check_rows(const std::string& paper, const std::string& claims, const char* format) {
  const std::string page = readme(paper);
  std::map<std::string, std::string> here;
  for (const auto& figure : figures_of(paper, "--only " + claims)) {
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

// Every number in the column `here` of the README's rows "| G05 what | paper | here |" is a figure of the claim, or the half
// width of its interval, to the digits that are given.
void check_numbers(const std::string& paper, const std::string& only, std::ptrdiff_t rows_held) {
  std::map<std::string, std::vector<double>> figures;
  for (const auto& figure : figures_of(paper, only)) {
    std::vector<double>& known = figures[figure.at("claim")];
    known.push_back(figure.at("value").get<double>());
    if (figure.at("half_width").is_number()) {
      known.push_back(figure.at("half_width").get<double>());
    }
  }
  std::istringstream page(readme(paper));
  const std::regex row("\\| ([A-Z][0-9]+) [^|]*\\|[^|]*\\|([^|]*)\\|.*"),
      number("-?[0-9][0-9,]*(\\.([0-9]+))?(?![0-9])");
  std::smatch cells;
  std::ptrdiff_t held = 0;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_match(line, cells, row) || figures.count(cells[1]) == 0) {
      continue;
    }
    const std::vector<double>& known = figures[cells[1]];
    const std::string here = cells[2];
    for (std::sregex_iterator it(here.begin(), here.end(), number), end; it != end; ++it, ++held) {
      std::string digits = (*it)[0];
      std::erase(digits, ',');
      const double shown = std::stod(digits), unit = std::pow(10.0, -static_cast<double>((*it)[2].length()));
      CHECK_MESSAGE(
          std::any_of(known.begin(), known.end(), [&](double x) { return std::abs(x - shown) <= 0.5001 * unit; }),
          "the program prints no ", digits, " for ", cells[1].str(), " now: ", line);
    }
  }
  CHECK(held >= rows_held);
}

}  // namespace

TEST_CASE("CRAFT's README has what the program prints") {
  check_rows("craft", "C05,C06,C13,C14,C15,C16,C23,C24", "{:.4g}");
}

TEST_CASE("GRACE-MoE's README has what the program prints") {
  check_numbers("grace", "--only G04,G05,G06,G07,G08,G09,G10,G11,G12,G13,G14,G15,G16,G18", 30);
}

TEST_CASE("Libra's README has what the program prints") { check_numbers("libra", "", 10); }

TEST_CASE("Libra's README has the requests/s that compare gives") {
  const std::string page = slurp(epsim::test::source_dir() / "experiments/libra/README.md");
  for (const auto& [model, file] : {std::pair("Qwen3-235B", "qwen3-235b-h200"), std::pair("GLM-4.5", "glm-4.5-h200")}) {
    const TempDir dir;
    const auto outcome = run_epsim(dir, "compare " + (epsim::test::source_dir() / "experiments/libra" / file).string() +
                                            ".yaml -q --policies vanilla,eplb_static_hot,lina,libra,libra_one_stage,"
                                            "libra_at_home,libra_unsharded -o out");
    REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
    for (const auto& policies : {std::vector{"vanilla", "eplb_static_hot", "lina", "libra"},
                                 std::vector{"libra", "libra_one_stage", "libra_at_home", "libra_unsharded"}}) {
      std::string row = fmt::format("| {} |", model);
      for (const char* policy : policies) {
        const auto summary = nlohmann::json::parse(slurp(dir / "out" / policy / "summary.json"));
        row += fmt::format(" {:#.4g} |", summary.at("throughput").at("requests_per_s").get<double>());
      }
      CHECK_MESSAGE(page.find(row) != std::string::npos, "not in the README: ", row);
    }
  }
}
