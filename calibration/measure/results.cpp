#include "calibration/measure/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "sim/core/check.h"
#include "sim/core/refuse.h"

namespace epsim::measure {
namespace {

constexpr std::string_view kFailed = "failed: ";

// Columns that every operator's table has behind its own: index of the fastest kernel in the attribute `kernels`, time
// of the fastest other one (0: there was none), executions per sample, floating-point operations and bytes of one
// execution at least, the relative error of the check, the SM clock in MHz (0: not known) and NVML's throttle bits.
const std::vector<std::string> kResultColumns = {"kernel",      "other_s",     "timed_together", "flops",
                                                 "bytes_moved", "check_error", "sm_mhz",         "throttle"};

// Index of `name` in a list like "a,b", which it joins when it is not there.
std::size_t index_in(std::string& list, const std::string& name) {
  std::istringstream in(list);
  std::size_t index = 0;
  for (std::string known; std::getline(in, known, ','); ++index) {
    if (known == name) {
      return index;
    }
  }
  list += (list.empty() ? "" : ",") + name;
  return index;
}

double other_time(const PointResult& result) {
  double other = 0;
  for (std::size_t k = 0; k < result.kernels.size(); ++k) {
    const double time = result.kernels[k].time_s.median;
    other = k != result.best && (other == 0 || time < other) ? time : other;
  }
  return other;
}

std::string clock_range(const std::vector<PointTable>& tables) {
  double low = 0, high = 0;
  for (const PointTable& t : tables) {
    for (const double mhz : t.values_of("sm_mhz")) {
      low = mhz > 0 && (low == 0 || mhz < low) ? mhz : low;
      high = std::max(high, mhz);
    }
  }
  return high > 0 ? fmt::format("SM {:.0f} to {:.0f} MHz right after points", low, high) : "not known";
}

std::string throttle_summary(const std::vector<PointTable>& tables) {
  std::size_t points = 0, throttled = 0;
  std::uint64_t reasons = 0;
  for (const PointTable& t : tables) {
    points += t.size();
    for (const double bits : t.values_of("throttle")) {
      throttled += bits > 0 ? 1 : 0;
      reasons |= static_cast<std::uint64_t>(bits);
    }
  }
  return fmt::format("{} of {} points, NVML reasons 0x{:x}", throttled, points, reasons);
}

}  // namespace

Results::Results(Provenance provenance) : provenance_(std::move(provenance)) {}

PointTable& Results::table_of(const OpSpec& op) {
  const auto found = std::find_if(tables_.begin(), tables_.end(), [&](const auto& t) { return t.op == op.name; });
  if (found != tables_.end()) {
    return *found;
  }
  PointTable table;
  table.op = std::string(op.name);
  table.columns = op.columns;
  table.columns.insert(table.columns.end(), kResultColumns.begin(), kResultColumns.end());
  table.values.resize(table.columns.size());
  table.attributes = {{"dtype", std::string(op.dtype)}, {"summary", std::string(op.summary)}, {"kernels", ""}};
  if (op.name.starts_with("grouped_gemm")) {
    table.attributes["distribution"] = "0 even, 1 zipf with exponent 1, 2 one_hot, 3 trace";
  }
  return tables_.emplace_back(std::move(table));
}

void Results::add(const PlannedPoint& point, const PointResult& result) {
  const std::string key = point.key();
  PointTable& table = table_of(*point.op);
  if (result.outcome != Outcome::kMeasured) {
    failures_[key] = fmt::format("{}: {}", name_of(result.failure), result.reason);
    return;
  }
  EPSIM_CHECK(done_.insert(key).second, "a point is added once");
  failures_.erase(key);
  for (const std::string& lost : result.lost) {  // the point has a time, and still a kernel that did not work
    failures_[key + " kernel " + lost.substr(0, lost.find(':'))] = lost;
  }
  const KernelTime& best = result.kernels[result.best];
  const Work work = point.op->work(point.values);
  std::vector<double> row = point.values;
  row.insert(row.end(), {static_cast<double>(index_in(table.attributes["kernels"], best.kernel)), other_time(result),
                         static_cast<double>(best.batch), work.flops.count(), work.bytes.count(), best.check_error,
                         result.sm_mhz, static_cast<double>(result.throttle)});
  table.add(row, best.time_s.median, best.time_s.relative_half_width,
            static_cast<std::int64_t>(best.repeats) * best.batch);
}

PointFile Results::file() const {
  PointFile out{provenance_, tables_};
  for (const auto& [key, reason] : failures_) {
    for (PointTable& table : out.tables) {
      if (key.starts_with(table.op + " ")) {
        table.attributes[std::string(kFailed) + key] = reason;
      }
    }
  }
  out.provenance.clocks = clock_range(tables_);
  out.provenance.throttle = throttle_summary(tables_);
  for (const auto& [key, text] : notes_) {
    out.provenance.notes += fmt::format("{}{}: {}", out.provenance.notes.empty() ? "" : "; ", key, text);
  }
  return out;
}

void Results::restore(const PointTable& table) {
  const OpSpec& op = find_op(table.op);
  PointTable& own = table_of(op);
  refuse_if(own.columns != table.columns, table.op,
            "its columns are not those that this program measures; begin a new file.");
  for (const auto& [name, text] : table.attributes) {
    if (name.starts_with(kFailed)) {
      failures_[name.substr(kFailed.size())] = text;
    } else {
      own.attributes[name] = text;
    }
  }
  own.values = table.values;
  own.time_s = table.time_s;
  own.rel_error = table.rel_error;
  own.repeats = table.repeats;
  for (std::size_t i = 0; i < table.size(); ++i) {
    PlannedPoint point{&op, {}, {}, {}, {}};
    for (std::size_t c = 0; c < op.columns.size(); ++c) {
      point.values.push_back(table.values[c][i]);
    }
    done_.insert(point.key());
  }
}

Results Results::resume(const Provenance& now, const std::filesystem::path& file) {
  const PointFile before = read_points(file);
  for (const ProvenanceField& field : provenance_fields()) {
    const bool may_differ = field.name == "date" || field.name == "clocks" || field.name == "throttle" ||
                            field.name == "notes" || field.name == "source" || field.name == "licence";
    refuse_if(!may_differ && before.provenance.*field.text != now.*field.text,
              {file.string(), 0, std::string(field.name)},
              fmt::format("these points were measured with '{}', now it is '{}': they do not belong together. Give "
                          "another --output, or --overwrite to start over.",
                          before.provenance.*field.text, now.*field.text));
  }
  Results out(now);
  for (const PointTable& table : before.tables) {
    out.restore(table);
  }
  return out;
}

}  // namespace epsim::measure
