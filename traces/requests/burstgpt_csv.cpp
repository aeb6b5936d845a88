// BurstGPT (github.com/HPMLL/BurstGPT; Wang et al., "BurstGPT: a real-world workload dataset to optimize LLM serving
// systems"): one row per request to a campus's ChatGPT and GPT-4 services, with a clock of whole seconds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/core/refuse.h"
#include "traces/format/csv.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

// Seconds as ticks, from the first row's; whole seconds stay exact.
Ticks since_first(const CsvReader& rows, std::size_t column, double at_s, double first_s) {
  const double since_s = at_s - first_s;
  if (!(since_s >= 0)) {
    rows.fail(column, "this row's time is before the first one's; rows must be sorted by arrival time.");
  }
  if (since_s > Seconds(kLongestRecording).count()) {
    rows.fail(column, "this is more than 100 days after the first row, longer than a run can be; cut the file.");
  }
  return to_ticks(Seconds{since_s});
}

bool listed(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

RequestTable read_burstgpt_csv(ByteInput& input, const BurstGptOptions& wanted, const RequestOptions& options) {
  CsvReader rows(input);
  const std::size_t time = rows.column("Timestamp"), model = rows.column("Model"), log = rows.column("Log Type");
  const std::size_t request = rows.column("Request tokens"), response = rows.column("Response tokens");
  const std::size_t total = rows.column("Total tokens");
  RequestCollector collector(options);
  std::optional<double> first;
  std::set<std::string, std::less<>> models, logs;  // that the file has
  bool kept = false;
  while (rows.next()) {
    const double at_s = rows.number(time);
    first = first.value_or(at_s);
    const Ticks since = since_first(rows, time, at_s, *first);
    const std::int64_t in = rows.integer(request), out = rows.integer(response), sum = rows.integer(total);
    // Subtraction on the side that cannot overflow: both are whole numbers of any size.
    if (in < 0 || out < 0 || sum < in || sum - in != out) {
      rows.fail(total, "request and response tokens must not be negative and must add up to the total.");
    }
    if (listed(wanted.models, rows.text(model)) && listed(wanted.log_types, rows.text(log))) {
      collector.add(since, in, out, rows.place(time));
      kept = true;
    } else if (!kept && models.size() + logs.size() < 20) {
      models.emplace(rows.text(model));
      logs.emplace(rows.text(log));
    }
  }
  refuse_if(!kept && !models.empty(), {input.name(), 0, ""},
            fmt::format("no row matches `models` and `log_types`. The file has the models {} and the log types {}.",
                        fmt::join(models, ", "), fmt::join(logs, ", ")));
  return collector.finish(input.name());
}

namespace {

constexpr KeyTable kBurstGptKeys = KeyTable({
                                       {"models", key::texts(), key::by("all"), "Models to keep."},
                                       {"log_types", key::texts(), key::by("all"), "Log types to keep."},
                                   }) +
                                   kRecordingKeys;

RequestTable make_burstgpt_csv(ConfigReader& in, Seed seed) {
  const std::filesystem::path file = in.path(kRecordingKeys["path"]);
  BurstGptOptions wanted;
  wanted.models = in.maybe<std::vector<std::string>>(kBurstGptKeys["models"]).value_or(wanted.models);
  wanted.log_types = in.maybe<std::vector<std::string>>(kBurstGptKeys["log_types"]).value_or(wanted.log_types);
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  ByteInput input(file);
  return read_burstgpt_csv(input, wanted, options);
}

}  // namespace

extern const RequestSource kBurstGptSource{
    "burstgpt_csv", "BurstGPT (Timestamp,Model,Request tokens,Response tokens,...)", make_burstgpt_csv, kBurstGptKeys};

}  // namespace epsim
