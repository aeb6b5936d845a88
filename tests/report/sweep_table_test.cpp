#include "sim/report/sweep_table.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/report/sample_run.h"

namespace epsim {

TEST_CASE("metrics of a run: every one once, numbers as they are, no section that is null") {
  const RunSummary run = summarize(test::sample_run());
  const ResultTable table = metric_table("results", run);
  REQUIRE(table.rows.size() == 1);
  REQUIRE(table.rows.front().size() == table.columns.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    CAPTURE(table.columns[i].name);
    CHECK(names.insert(table.columns[i].name).second);
    const Metric& m = metric(table.columns[i].name);
    CHECK(table.columns[i].text == m.is_text());
    CHECK(text_of(table.rows[0][i]) == (m.is_text() ? run.text(m.name) : exact(run.number(m.name))));
  }
  CHECK(names.size() > 60);
  CHECK(names.contains("requests_per_s"));
  CHECK(!names.contains("rebalance_plans"));
  RunResult rebalanced = test::sample_run();
  rebalanced.rebalance.active = true;
  const ResultTable more = metric_table("results", summarize(rebalanced));
  CHECK(more.columns.size() == table.columns.size() + 13);
}

TEST_CASE("a cell as text and as a number") {
  CHECK(text_of(0.1) == "0.1");
  CHECK(text_of(12345678901.0) == "12345678901");
  CHECK(text_of(kUndefined).empty());
  CHECK(text_of("4/s") == "4/s");
  CHECK(number_of("0.50") == 0.5);  // as it was typed
  CHECK(std::isnan(number_of("4/s")));
  CHECK(std::isnan(number_of("")));
}

TEST_CASE("a table as CSV, and without some of its columns") {
  const ResultTable table{
      "knees", {{"policy", true}, {"limit", true}, {"x"}}, {{"a,\"b\"", "ttft", 1.5}, {"c", "", kUndefined}}};
  CHECK(table_csv(table) == "policy,limit,x\n\"a,\"\"b\"\"\",ttft,1.5\nc,,\n");
  constexpr std::array<std::string_view, 2> dropped{"x", "absent"};
  CHECK(table_csv(without_columns(table, dropped)) == "policy,limit\n\"a,\"\"b\"\"\",ttft\nc,\n");
}

TEST_CASE("rows of points with other columns: the union, empty where a point has none") {
  ResultTable all{"results", {{"point"}, {"error", true}}, {}};
  append_rows(all, {0.0, ""}, {"results", {{"x"}, {"y"}}, {{1.0, 2.0}}});
  append_rows(all, {1.0, "does not fit"}, {"results", {}, {{}}});
  append_rows(all, {2.0, ""}, {"results", {{"y"}, {"z", true}}, {{3.0, "w"}}});
  const std::vector<ResultColumn> columns{{"point"}, {"error", true}, {"x"}, {"y"}, {"z", true}};
  CHECK(all.columns == columns);
  CHECK(table_csv(all) == "point,error,x,y,z\n0,,1,2,\n1,does not fit,,,\n2,,,3,w\n");
}

TEST_CASE("rows as JSON: numbers as they are written, words as words, null where there is nothing") {
  const ResultTable table{"results", {{"point"}, {"rate", true}, {"x_s"}, {"error", true}}, {{0.0, "10", 0.1, ""}}};
  CHECK(json_rows(table).dump() == R"([{"point":0,"rate":"10","x_s":0.1,"error":null}])");
  CHECK(json_rows({"curve", {{"x"}}, {}}).dump() == "[]");
}

}  // namespace epsim
