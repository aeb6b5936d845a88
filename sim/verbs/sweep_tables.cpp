#include "sim/verbs/sweep_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/report/csv_table.h"
#include "sim/report/estimate.h"
#include "sim/verbs/sweep_winners.h"
#include "traces/format/hdf5_file.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

// A sweep over `seed`: points that differ in their seed alone, as one.

// A combination of the axes but `seed`.
struct Group {
  std::vector<std::string> values;
  std::vector<std::vector<std::size_t>> points;  // [policy][seed]
};

std::vector<Group> groups_of(const SweepRequest& request, std::size_t seed_axis) {
  const std::size_t policies = std::max<std::size_t>(1, request.policies.size());
  std::vector<Group> out;
  std::map<std::vector<std::string>, std::size_t> known;
  for (std::size_t point = 0; point < count_points(request); ++point) {
    std::vector<std::string> values = values_at(request.axes, point / policies);
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(seed_axis));
    const auto [at, added] = known.try_emplace(values, out.size());
    if (added) {
      out.push_back({std::move(values), std::vector<std::vector<std::size_t>>(policies)});
    }
    out[at->second].points[point % policies].push_back(point);
  }
  return out;
}

std::optional<std::size_t> seed_axis_of(const SweepRequest& request) {
  const auto seed = std::find_if(request.axes.begin(), request.axes.end(),
                                 [](const SweepAxis& axis) { return axis.key == "seed" && axis.values.size() > 1; });
  return seed != request.axes.end() ? std::optional(static_cast<std::size_t>(seed - request.axes.begin()))
                                    : std::nullopt;
}

using ResultRows = std::vector<std::vector<std::vector<Cell>>>;  // [policy][seed]

// The figure in column `c` under each seed of a policy and, where the first policy has it too, its ratio to that.
struct Values {
  std::vector<double> own, ratios;
};

Values values_of(const ResultRows& rows, std::size_t policy, std::size_t c) {
  Values out;
  for (std::size_t s = 0; s < rows[policy].size(); ++s) {
    const double own = number_of(rows[policy][s][c]), first = number_of(rows[0][s][c]);
    if (std::isfinite(own)) {  // a point that failed has none
      out.own.push_back(own);
    }
    if (std::isfinite(own) && first > 0) {
      out.ratios.push_back(own / first);
    }
  }
  return out;
}

// A rate that a search found, which its bracket leaves uncertain.
bool is_searched(const std::string& figure) {
  return std::ranges::find(kSearchedRates, figure) != kSearchedRates.end();
}

// The table "intervals", without rows: a row per combination of the other axes, policy and figure of "results", with
// the figure's mean over seeds, the mean's 95 % interval (Student's t), and the same of its ratio to the first
// policy's, taken seed by seed. Nothing unless `seed` is an axis of several values.
std::optional<ResultTable> intervals_layout(const SweepRequest& request) {
  const std::optional<std::size_t> seed_axis = seed_axis_of(request);
  if (!seed_axis) {
    return std::nullopt;
  }
  std::vector<ResultColumn> lead = lead_columns(request);
  lead.erase(lead.begin() + static_cast<std::ptrdiff_t>(1 + *seed_axis));
  lead.erase(lead.begin());  // the number of the point
  ResultTable out{"intervals", lead, {}};
  out.add_words({"figure"});
  out.add_numbers({"seeds", "mean", "interval95_low", "interval95_high", "ratio_mean", "ratio_interval95_low",
                   "ratio_interval95_high"});
  return out;
}

// Its rows, one after another; the points of one combination at a time are in memory. `columns` are those of "results",
// `result_of` gives a point's row of it.
void each_interval(const SweepRequest& request, const std::vector<ResultColumn>& columns,
                   const std::function<std::vector<Cell>(std::size_t point)>& result_of,
                   const std::function<void(std::vector<Cell>)>& found) {
  for (const Group& group : groups_of(request, seed_axis_of(request).value())) {
    const ResultRows rows = mapped(group.points, [&](const auto& points) { return mapped(points, result_of); });
    for (std::size_t policy = 0; policy < rows.size(); ++policy) {
      for (std::size_t c = lead_columns(request).size(); c < columns.size(); ++c) {
        const Values values = columns[c].text || !has_mean(columns[c].name) ? Values{} : values_of(rows, policy, c);
        if (values.own.empty()) {
          continue;
        }
        std::vector<Cell> row(group.values.begin(), group.values.end());
        if (!request.policies.empty()) {
          row.emplace_back(request.policies[policy]);
        }
        row.emplace_back(columns[c].name);
        row.emplace_back(static_cast<double>(values.own.size()));
        const double bracket = is_searched(columns[c].name) ? request.goodput.tolerance : 0;
        for (const Estimate& e : {searched_estimate(values.own, bracket, 1),
                                  searched_estimate(values.ratios, policy == 0 ? 0 : bracket, 2)}) {
          row.insert(row.end(), {e.mean, e.low(), e.high()});
        }
        found(std::move(row));
      }
    }
  }
}

constexpr std::size_t kRowsAtOnce = 4096;  // of a column of results.h5

// One table on its way to disk: NAME.csv row by row, its group of results.h5 in blocks of rows.
class TableFiles {
 public:
  TableFiles(const fs::path& folder, const ResultTable& layout, Hdf5File& file)
      : layout_(layout), file_(file), whole_(folder / (layout.name + ".csv")) {
    out_.open(whole_.path(), std::ios::binary | std::ios::trunc);
    std::vector<std::string> names;
    for (const ResultColumn& column : layout.columns) {
      names.push_back(column.name);
      numbers_.emplace_back(column.text ? std::nullopt
                                        : std::optional(file.create_dataset(name_of(column), Hdf5Type::kF64, {})));
    }
    csv_.emplace(out_, names);
    texts_.resize(names.size());
    block_.resize(names.size());
  }

  void add(const std::vector<Cell>& row) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      csv_->text(text_of(row[c]));
      if (numbers_[c]) {
        block_[c].push_back(number_of(row[c]));
      } else {
        texts_[c].push_back(text_of(row[c]));
      }
    }
    csv_->end_row();
    if (++rows_ % kRowsAtOnce == 0) {
      write_block();
    }
  }

  void finish() {
    write_block();
    for (std::size_t c = 0; c < texts_.size(); ++c) {
      if (!numbers_[c]) {
        file_.write_texts(name_of(layout_.columns[c]), texts_[c]);
      }
    }
    csv_.reset();
    out_.close();
    whole_.commit(!out_.fail());
  }

 private:
  std::string name_of(const ResultColumn& column) const { return layout_.name + "/" + column.name; }
  void write_block() {
    for (std::size_t c = 0; c < numbers_.size(); ++c) {
      if (numbers_[c]) {
        numbers_[c]->append<double>(block_[c]);
        block_[c].clear();
      }
    }
  }

  const ResultTable& layout_;
  Hdf5File& file_;
  AtomicFile whole_;
  std::ofstream out_;
  std::optional<CsvTable> csv_;
  std::vector<std::optional<Hdf5Dataset>> numbers_;
  std::vector<std::vector<double>> block_;
  std::vector<std::vector<std::string>> texts_;  // written as a whole: all have the length of the longest
  std::size_t rows_ = 0;
};

// What is shown of a table: `columns` of it.
struct ShownTable {
  ResultTable table;
  std::vector<std::size_t> columns;
  void add(const std::vector<Cell>& row) {
    table.rows.push_back(mapped(columns, [&](std::size_t c) { return row[c]; }));
  }
};

ShownTable shown_of(const ResultTable& layout, std::size_t lead, const std::vector<std::string>& shown) {
  ShownTable out{{layout.name, {}, {}}, {}};
  for (std::size_t c = 0; c < layout.columns.size(); ++c) {
    const std::string& name = layout.columns[c].name;
    if (c < lead || shown.empty() || std::find(shown.begin(), shown.end(), name) != shown.end()) {
      out.table.columns.push_back(layout.columns[c]);
      out.columns.push_back(c);
    }
  }
  return out;
}

}  // namespace

std::string key_of_point(std::size_t index) { return fmt::format("{:06}", index); }

SweepPoint load_point(const JobStore& store, std::size_t index) {
  const std::optional<std::string> text = store.load(key_of_point(index));
  std::optional<SweepPoint> point = text ? stored_point(*text) : std::nullopt;
  if (!point) {
    throw RunFailed(
        fmt::format("{}: point {} is damaged; the same command runs it again.", store.path().string(), index));
  }
  return *std::move(point);
}

SweepTables::SweepTables(const SweepRequest& request, const JobStore& store) : request_(request), store_(store) {
  const std::vector<ResultColumn> lead = lead_columns(request);
  layout_ = {{"results", lead, {}}};
  layout_.front().columns.push_back({std::string(kErrorColumn), true});
  std::set<std::string> seen;  // points of one label have the same columns
  for (std::size_t i = 0; i < count_points(request); ++i) {
    if (!seen.insert(store.label_of(key_of_point(i))).second) {
      continue;
    }
    for (const ResultTable& table : load_point(store, i).tables) {
      auto all = std::ranges::find(layout_, table.name, &ResultTable::name);
      if (all == layout_.end()) {
        all = layout_.insert(layout_.end(), {table.name, lead, {}});
      }
      append_rows(*all, std::vector<Cell>(lead.size() + (table.name == "results" ? 1 : 0)),
                  {table.name, table.columns, {}});
    }
  }
}

std::vector<std::pair<std::size_t, std::vector<Cell>>> SweepTables::rows_of(const SweepPoint& point) const {
  std::vector<std::pair<std::size_t, std::vector<Cell>>> out;
  const std::vector<Cell> lead = lead_cells(request_, point);
  for (std::size_t t = 0; t < layout_.size(); ++t) {
    const auto own = std::ranges::find(point.tables, layout_[t].name, &ResultTable::name);
    std::vector<Cell> cells = lead;
    if (t == 0) {
      cells.emplace_back(point.error);
    } else if (own == point.tables.end()) {
      continue;
    }
    ResultTable rows{layout_[t].name, layout_[t].columns, {}};
    append_rows(rows, cells, own != point.tables.end() ? *own : ResultTable{"results", {}, {{}}});
    for (std::vector<Cell>& row : rows.rows) {
      out.emplace_back(t, std::move(row));
    }
  }
  return out;
}

void SweepTables::each(const std::function<void(std::size_t, std::vector<Cell>)>& row) const {
  for (std::size_t i = 0; i < count_points(request_); ++i) {
    for (auto& [table, cells] : rows_of(load_point(store_, i))) {
      row(table, std::move(cells));
    }
  }
}

std::vector<Cell> SweepTables::result_of(std::size_t point) const {
  return rows_of(load_point(store_, point)).front().second;
}

std::vector<ResultTable> write_sweep_tables(const SweepRequest& request, const JobStore& store,
                                            const std::string& manifest, const std::vector<std::string>& shown) {
  const SweepTables tables(request, store);
  const std::size_t lead = lead_columns(request).size();
  AtomicFile whole(store.path() / "results.h5");
  Hdf5File file = Hdf5File::create(whole.path());
  file.set_text("sweep", manifest);
  std::deque<TableFiles> files;
  std::vector<ShownTable> out;
  for (const ResultTable& layout : tables.layout()) {
    files.emplace_back(store.path(), layout, file);
    out.push_back(shown_of(layout, lead + (layout.name == "results" ? 1 : 0), shown));
  }
  tables.each([&](std::size_t table, const std::vector<Cell>& row) {
    files[table].add(row);
    out[table].add(row);
  });
  const std::optional<ResultTable> intervals = intervals_layout(request);
  if (intervals) {
    files.emplace_back(store.path(), *intervals, file);
    out.push_back(shown_of(*intervals, intervals->columns.size(), shown));
    const std::size_t figure = lead - 2;
    const auto result_of = [&](std::size_t point) { return tables.result_of(point); };
    each_interval(request, tables.layout().front().columns, result_of, [&](const std::vector<Cell>& row) {
      files.back().add(row);
      if (shown.empty() || std::find(shown.begin(), shown.end(), text_of(row[figure])) != shown.end()) {
        out.back().add(row);
      }
    });
  }
  std::deque<ResultTable> derived;  // TableFiles keep a reference
  const auto add_derived = [&](ResultTable table) {
    files.emplace_back(store.path(), derived.emplace_back(std::move(table)), file);
    for (const std::vector<Cell>& row : derived.back().rows) {
      files.back().add(row);
    }
    out.push_back({derived.back(), {}});
  };
  if (const std::optional<WinnerMap> rates = rates_by_place(request, out.front().table)) {
    if (std::optional<ResultTable> gains = gains_of(*rates)) {
      add_derived(*std::move(gains));
    }
    if (const std::optional<WinnerMap> winners = winners_of(*rates, not_for_use(request))) {
      ResultTable won = winner_table(*winners);
      write_file_atomically(store.path() / "winners.svg", winner_svg(*winners, won));
      add_derived(std::move(won));
    }
  }
  for (TableFiles& one : files) {
    one.finish();
  }
  if (const std::string best = best_place(request, out.front().table); !best.empty()) {
    write_file_atomically(store.path() / "verdict.txt", best + "\n");
  }
  file.close();
  whole.commit();
  return mapped(out, [](ShownTable& t) { return std::move(t.table); });
}

}  // namespace epsim
