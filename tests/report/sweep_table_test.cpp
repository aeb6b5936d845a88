#include "sim/report/sweep_table.h"

#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/core/error.h"
#include "sim/report/json.h"
#include "tests/report/sample_run.h"

namespace epsim {

using Rows = std::vector<std::vector<std::string>>;

TEST_CASE("figures of a JSON: sections flat, estimates by their mean, lists and ratios out, exact numbers") {
  const std::string json = R"({"format": 1, "seed": 3, "plan": "p, q", "a": {"x_s": 0.1, "y": null, "n": 12345678901},
    "knee": {"mean": 2.5, "half_width": 0.5}, "knee_ratio": {"mean": 1, "half_width": 0}, "ok": true, "list": [1]})";
  const ResultTable table = figures_of_json("results", json, "");
  const std::vector<ResultColumn> columns{{"plan", true}, {"x_s"}, {"y"}, {"n"}, {"knee"}, {"ok"}};
  CHECK(table.columns == columns);
  CHECK(table.rows == Rows{{"p, q", "0.1", "", "12345678901", "2.5", "1"}});
  CHECK(figures_of_json("results", json, "/a").rows == Rows{{"0.1", "", "12345678901"}});
}

TEST_CASE("figures of a run's own summary: every figure once, under one name") {
  const ResultTable table = figures_of_json("results", summary_json(summarize(test::sample_run()), {}), "");
  REQUIRE(table.rows.size() == 1);
  CHECK(table.columns.size() > 60);
  CHECK(table.rows.front().size() == table.columns.size());
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(table.columns[i].name != table.columns[j].name);
    }
  }
}

TEST_CASE("tables go through CSV unchanged, but for dropped columns") {
  const std::string csv = "policy,limit,x\n\"a,\"\"b\"\"\",ttft,1.5\nc,,\n";
  constexpr std::array<std::string_view, 1> dropped{"x"}, text{"limit"};
  const ResultTable table = table_of_csv("knees", csv, dropped, text);
  const std::vector<ResultColumn> columns{{"policy"}, {"limit", true}};
  CHECK(table.columns == columns);
  CHECK(table.rows == Rows{{"a,\"b\"", "ttft"}, {"c", ""}});
  std::ostringstream out;
  write_table_csv(out, table_of_csv("knees", csv, {}, text));
  CHECK(out.str() == csv);
  CHECK_THROWS_AS(table_of_csv("knees", "a,b\n1\n", {}, {}), InputError);
}

TEST_CASE("rows of points with other columns: the union, empty where a point has none") {
  ResultTable all{"results", {{"point"}, {"error", true}}, {}};
  append_rows(all, {"0", ""}, {"results", {{"x"}, {"y"}}, {{"1", "2"}}});
  append_rows(all, {"1", "does not fit"}, {"results", {}, {{}}});
  append_rows(all, {"2", ""}, {"results", {{"y"}, {"z", true}}, {{"3", "w"}}});
  const std::vector<ResultColumn> columns{{"point"}, {"error", true}, {"x"}, {"y"}, {"z", true}};
  CHECK(all.columns == columns);
  CHECK(all.rows == Rows{{"0", "", "1", "2", ""}, {"1", "does not fit", "", "", ""}, {"2", "", "", "3", "w"}});
}

TEST_CASE("rows as JSON: numbers as they are written, words as words, null where there is nothing") {
  const ResultTable table{"results", {{"point"}, {"rate", true}, {"x_s"}, {"error", true}}, {{"0", "10", "0.1", ""}}};
  CHECK(json_rows(table).dump() == R"([{"point":0,"rate":"10","x_s":0.1,"error":null}])");
  CHECK(json_rows({"curve", {{"x"}}, {}}).dump() == "[]");
}

}  // namespace epsim
