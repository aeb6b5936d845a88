// The statistics of the real files reproduce EXPERT_LOAD_STATS.csv to its printed digits (four significant ones).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/format/csv.h"
#include "traces/format/statistics.h"
#include "traces/import/importer.h"

namespace epsim {
namespace {

const std::filesystem::path kStatisticsData = test::shared_dir() / "data";

using Windows = std::map<std::string, LoadWindow>;

TraceFile imported(const test::TempDir& folder, const std::filesystem::path& file, const ImportOptions& options,
                   const std::string& format = "auto") {
  const std::filesystem::path to = folder / "t.h5";
  TraceFileWriter writer(to);
  import_trace(file, format, options, writer);
  writer.commit();
  return TraceFile(to);
}

// One window per value of the first label: the rows of a data set are summed.
void add_labelled(Windows& out, const std::string& prefix, const TraceFile& trace) {
  const Table labels = trace.table("load_rows");
  const auto& names = std::get<std::vector<std::string>>(labels.columns[0].second);
  std::vector<double> counts(trace.load_row_size());
  std::vector<std::int64_t> tokens(1);
  const auto experts = static_cast<std::size_t>(trace.info().experts);
  for (std::size_t r = 0; r < names.size(); ++r) {
    trace.read_loads<double>(static_cast<std::int64_t>(r), 1, counts, tokens);
    LoadWindow& w = out.try_emplace(prefix + names[r], trace.info().layers(), trace.info().experts).first->second;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      w.layer(static_cast<int>(i / experts))[i % experts] += counts[i];
    }
  }
}

Windows all_windows() {
  const test::TempDir folder;
  Windows out;
  for (const auto& entry : std::filesystem::directory_iterator(kStatisticsData / "sglang-ep-statistics")) {
    if (entry.path().extension() == ".json") {
      out[entry.path().stem()] = whole_window(imported(folder, entry.path(), {.top_k = 8}));
    }
  }
  add_labelled(out, "", imported(folder, kStatisticsData / "gpt-oss-20b-routing/expert_counts.csv", {.top_k = 4}));
  add_labelled(out, "olmoe/",
               imported(folder, kStatisticsData / "olmoe-routing/olmoe_expert_counts_top8.csv", {.top_k = 8}));
  add_labelled(out, "mixtral/",
               imported(folder, kStatisticsData / "olmoe-routing/mixtral8x7b_expert_counts_top2.csv", {.top_k = 2}));
  add_labelled(out, "harmoeny/qwen/",
               imported(folder, kStatisticsData / "harmoeny/expert_freq_qwen_policy_datasets.csv.gz", {.top_k = 4}));
  add_labelled(out, "harmoeny/switch128/",
               imported(folder, kStatisticsData / "harmoeny/expert_freq_switch128_datasets.csv.gz", {.top_k = 1}));
  out["exflow/switch128"] = whole_window(imported(folder, kStatisticsData / "harmoeny/exflow_trace_switch128_u8.bin.gz",
                                                  {.experts = 128, .top_k = 1, .layers = 6}, "token_binary"));
  out["flame-moe-290m"] =
      whole_window(imported(folder, kStatisticsData / "flame-moe-290m-sample/top6_routing.csv.gz", {.experts = 64}));
  for (const auto& entry : std::filesystem::directory_iterator(kStatisticsData / "step-qwen3-mixtral")) {
    if (entry.path().extension() == ".csv") {
      const std::string stem = entry.path().stem();
      out["step/" + stem] =
          whole_window(imported(folder, entry.path(), {.experts = stem.starts_with("qwen") ? 128 : 8}));
    }
  }
  return out;
}

// The figure as the table prints it.
double printed(double x) { return *parse_number(fmt::format("{:.4g}", x)); }

TEST_CASE("every row and column of the table") {
  const Windows windows = all_windows();
  ByteInput input(kStatisticsData / "EXPERT_LOAD_STATS.csv");
  CsvReader rows(input);
  std::set<std::string> seen;
  int figures = 0;
  while (rows.next()) {
    const std::string name(rows.text(rows.column("name")));
    CAPTURE(name);
    REQUIRE(windows.contains(name));
    seen.insert(name);
    const SkewSummary s = skew_summary(windows.at(name));
    const LayerSkew& a = s.average;
    CHECK(s.assignments == rows.number(rows.column("total_assignments")));
    const auto check = [&](const std::string& column, const std::optional<double>& value) {
      CAPTURE(column);
      const std::size_t c = rows.column(column);
      if (!rows.text(c).empty()) {
        REQUIRE(value.has_value());
        CHECK(printed(*value) == rows.number(c));
        ++figures;
      }
    };
    check("maxmean_min", s.min);
    check("maxmean_median", s.median);
    check("maxmean_mean", s.mean);
    check("maxmean_p90", s.p90);
    check("maxmean_max", s.max);
    check("top1_share", a.top1_share);
    check("top2_share", a.top2_share);
    check("top10pct_share", a.top_tenth_share);
    check("gini", a.gini);
    check("eff_experts", a.effective_experts);
    for (std::size_t i = 0; i < kBalancednessGpus.size(); ++i) {
      check(fmt::format("balanced_ep{}", kBalancednessGpus[i]), a.balancedness[i]);
    }
    check("balanced_ep64_min_layer", s.worst_balancedness[3]);
  }
  CHECK(seen.size() == 47);
  CHECK(figures > 600);
}

}  // namespace
}  // namespace epsim
