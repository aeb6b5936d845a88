#include "sim/app/sweep_run.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/app/goodput_options.h"
#include "sim/app/sweep_seeds.h"
#include "sim/core/files.h"
#include "sim/study/goodput.h"
#include "traces/format/hdf5_file.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

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

// The points that are not finished, in order; the finished ones go to their places in `points`.
std::vector<std::size_t> load_finished(SweepFolder& folder, bool retry_failed, std::vector<SweepPoint>& points) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::optional<SweepPoint> known = folder.load(i);
    if (known && (known->error.empty() || !retry_failed)) {
      points[i] = *std::move(known);
    } else {
      left.push_back(i);
    }
  }
  return left;
}

// False when it was interrupted.
bool run_points(const SweepRequest& request, const SweepControl& control, const SweepFolder& folder,
                const std::vector<std::size_t>& left, std::vector<SweepPoint>& points) {
  std::mutex turn;
  std::atomic<bool> dropped{false};
  // One point a task: they differ in length, and a kill should lose as little as can be.
  tbb::parallel_for(
      tbb::blocked_range<std::size_t>(0, left.size(), 1),
      [&](const tbb::blocked_range<std::size_t>& range) {
        for (std::size_t i = range.begin(); i < range.end(); ++i) {
          if (control.stop != nullptr && *control.stop) {
            dropped = true;
            return;
          }
          try {
            SweepPoint point = run_point(request, left[i], control.stop);
            folder.save(point);
            const std::lock_guard lock(turn);
            if (control.on_point) {
              control.on_point(point);
            }
            points[left[i]] = std::move(point);
          } catch (const SearchInterrupted&) {
            dropped = true;
          }
        }
      },
      tbb::simple_partitioner());
  return !dropped;
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

// The description of the inputs that a folder keeps, as JSON.
std::string sweep_manifest(const SweepRequest& request, const std::string& scenario) {
  Json out{{"format", kSweepFormat}, {"epsim_version", EPSIM_VERSION}};
  out["scenario"] = scenario;
  // Two builds of one version may compute different figures: a sweep is not to mix them.
  out["program_hash"] = describe_file("/proc/self/exe").hash;
  out["scenario_hash"] = describe_file(request.scenario).hash;
  out["measure"] = request.measure == SweepMeasure::kRun ? "run" : "goodput";
  if (request.measure == SweepMeasure::kGoodput) {
    out["goodput"] = goodput_options_json(request.goodput);
  }
  out["overrides"] = request.overrides;
  out["axes"] = Json::array();
  for (const SweepAxis& axis : request.axes) {
    out["axes"].push_back({{"key", axis.key}, {"values", axis.values}});
  }
  out["policies"] = request.policies;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string manifest_of(const SweepRequest& request) {
  check_axes(request.axes, request.overrides, request.policies.size());
  return sweep_manifest(request, first_scenario(request).name);
}

SweepOutcome run_sweep(const SweepRequest& request, const fs::path& target, const SweepControl& control) {
  check_axes(request.axes, request.overrides, request.policies.size());
  const Scenario first = first_scenario(request);
  const std::string manifest = sweep_manifest(request, first.name);
  SweepFolder folder(target, manifest, control.overwrite);
  SweepOutcome out;
  out.points.resize(count_points(request));
  const std::vector<std::size_t> left = load_finished(folder, control.retry_failed, out.points);
  write_file_atomically(folder.path() / "resolved.yaml", first.resolved);
  if (control.on_start) {
    control.on_start(left.size(), out.points.size() - left.size());
  }
  if (!run_points(request, control, folder, left, out.points)) {
    return {true, {}, 0, {}};
  }
  out.failed = static_cast<std::size_t>(
      std::count_if(out.points.begin(), out.points.end(), [](const SweepPoint& p) { return !p.error.empty(); }));
  out.tables = gather(request, out.points);
  if (std::optional<ResultTable> intervals = intervals_over_seeds(request, out.tables.front())) {
    out.tables.push_back(*std::move(intervals));
  }
  for (const ResultTable& table : out.tables) {
    write_file_atomically(folder.path() / (table.name + ".csv"), table_csv(table));
  }
  write_hdf5(folder.path() / "results.h5", out.tables, manifest);
  return out;
}

}  // namespace epsim::app
