#include "sim/verbs/sweep_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/study/job_runner.h"
#include "sim/study/study_manifest.h"
#include "sim/verbs/sweep_seeds.h"
#include "sim/verbs/sweep_winners.h"
#include "traces/format/hdf5_file.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr StoreKind kSweepStore{"sweep", "sweep.json", "points"};
constexpr int kSweepFormat = 1;  // of sweep.json

// The scenario of the first point that can be read: as a rule the very first. Refuses a sweep that has none such: a key
// that is misspelt spoils all points, and the first error says it best.
Scenario first_scenario(const SweepRequest& request) {
  std::optional<InputError> first;
  for (std::size_t i = 0; i < count_points(request); ++i) {
    try {
      return scenario_at(request, i);
    } catch (const InputError& e) {
      if (!first) {
        first = e;
      }
    }
  }
  throw *first;
}

// "results" has a row for every point, the failed ones too; the other tables only those of points that ran.
std::vector<ResultTable> gather(const SweepRequest& request, const std::vector<SweepPoint>& points) {
  const std::vector<ResultColumn> lead = lead_columns(request);
  std::vector<ResultTable> out{{"results", lead, {}}};
  out.front().columns.push_back({std::string(kErrorColumn), true});
  for (const SweepPoint& point : points) {
    std::vector<Cell> cells = lead_cells(request, point);
    for (const ResultTable& table : point.tables) {
      if (table.name == "results") {
        continue;
      }
      auto all = std::find_if(out.begin(), out.end(), [&](const ResultTable& t) { return t.name == table.name; });
      if (all == out.end()) {
        all = out.insert(out.end(), {table.name, lead, {}});
      }
      append_rows(*all, cells, table);
    }
    cells.emplace_back(point.error);
    const auto own = std::find_if(point.tables.begin(), point.tables.end(),
                                  [](const ResultTable& t) { return t.name == "results"; });
    append_rows(out.front(), cells, own != point.tables.end() ? *own : ResultTable{"results", {}, {{}}});
  }
  return out;
}

void write_column(Hdf5File& file, const ResultTable& table, std::size_t column) {
  const std::string name = table.name + "/" + table.columns[column].name;
  if (table.columns[column].text) {
    std::vector<std::string> texts;
    for (const std::vector<Cell>& row : table.rows) {
      texts.push_back(text_of(row[column]));
    }
    file.write_texts(name, texts);
    return;
  }
  std::vector<double> numbers;
  for (const std::vector<Cell>& row : table.rows) {
    numbers.push_back(number_of(row[column]));
  }
  file.create_dataset(name, Hdf5Type::kF64, {}).append<double>(numbers);
}

void write_hdf5(const fs::path& target, const std::vector<ResultTable>& tables, const std::string& manifest) {
  fs::path temporary = target;
  temporary += fmt::format(".tmp{}", getpid());
  Hdf5File file = Hdf5File::create(temporary);
  file.set_text("sweep", manifest);
  for (const ResultTable& table : tables) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      write_column(file, table, c);
    }
  }
  file.close();
  fs::rename(temporary, target);
}

// The inputs of the sweep as its folder keeps them.
std::string manifest_of(const SweepRequest& request, const std::string& scenario) {
  Json out = manifest_head(kSweepFormat);
  out["scenario"] = scenario;
  out["scenario_hash"] = describe_file(request.scenario).hash;
  out["measure"] = request.measure == SweepMeasure::kRun ? "run" : "goodput";
  if (request.measure == SweepMeasure::kGoodput) {
    out["goodput"] = goodput_options_json(request.goodput);
  }
  out["overrides"] = request.overrides;
  out["axes"] = Json::array();
  for (const SweepAxis& axis : request.axes) {
    out["axes"].push_back({{"key", axis.key}, {"values", axis.values}});
    if (!axis.settings.empty()) {
      out["axes"].back()["settings"] = axis.settings;
    }
  }
  out["policies"] = request.policies;
  return document_text(out);
}

// Takes the finished points, whose input files must be as they were. Points that failed are finished unless
// `retry_failed`.
JobRunner<SweepPoint> runner_of(const SweepRequest& request, const JobStore& store, bool retry_failed) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count_points(request); ++i) {
    keys.push_back(fmt::format("{:06}", i));
  }
  const auto inputs = std::make_shared<UnchangedInputs>();
  const auto read = [inputs, retry_failed](const std::string& text) -> std::optional<SweepPoint> {
    std::optional<SweepPoint> point = stored_point(text);
    if (point) {
      inputs->check(*point);
    }
    return point && (point->error.empty() || !retry_failed) ? point : std::nullopt;
  };
  return JobRunner<SweepPoint>(keys, {&store, [](const SweepPoint& point) { return stored_text(point); }, read});
}

}  // namespace

bool holds_sweep(const fs::path& folder, const SweepRequest& request) {
  check_axes(request.axes, request.overrides, request.policies.size());
  return holds_study(folder, kSweepStore, manifest_of(request, first_scenario(request).name));
}

SweepOutcome run_sweep(const SweepRequest& request, const fs::path& target, const SweepControl& control) {
  check_axes(request.axes, request.overrides, request.policies.size());
  const Scenario first = first_scenario(request);
  const std::string manifest = manifest_of(request, first.name);
  const JobStore store(target, kSweepStore, manifest, control.overwrite);
  JobRunner<SweepPoint> runner = runner_of(request, store, control.retry_failed);
  write_file_atomically(store.path() / "resolved.yaml", first.resolved);
  const std::vector<std::size_t> left = runner.left();
  if (control.on_start) {
    control.on_start(left.size(), count_points(request) - left.size());
  }
  const JobControl jobs{control.stop, [&](std::size_t) { control.on_point ? control.on_point() : void(); }};
  PlanCache plans;
  try {
    runner.run(left, jobs, [&](std::size_t i, const Abandoned&) { return run_point(request, i, control.stop, plans); });
  } catch (const StudyInterrupted&) {
    return {true, {}, 0, {}};
  }
  SweepOutcome out{.points = runner.take(), .tables = {}};
  out.failed = static_cast<std::size_t>(
      std::count_if(out.points.begin(), out.points.end(), [](const SweepPoint& p) { return !p.error.empty(); }));
  out.tables = gather(request, out.points);
  if (std::optional<ResultTable> intervals = intervals_over_seeds(request, out.tables.front())) {
    out.tables.push_back(*std::move(intervals));
  }
  if (const std::optional<WinnerMap> winners = winners_of(request, out.tables.front())) {
    out.tables.push_back(winner_table(*winners));
    write_file_atomically(store.path() / "winners.svg", winner_svg(*winners, out.tables.back()));
  }
  for (const ResultTable& table : out.tables) {
    write_file_atomically(store.path() / (table.name + ".csv"), table_csv(table));
  }
  write_hdf5(store.path() / "results.h5", out.tables, manifest);
  return out;
}

}  // namespace epsim
