// Requests from any comma-separated table: the user says which column is what.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "traces/format/csv.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"
#include "traces/requests/timestamps.h"

namespace epsim {

namespace {

constexpr std::int64_t kPsPerSecond = 1'000'000'000'000;
constexpr std::int64_t kLongestPs = Ticks(kLongestRecording).count();

struct TimeUnit {
  std::string_view name;
  std::int64_t ps;
};
// "date" counts nanoseconds.
constexpr TimeUnit kTimeUnits[] = {{"s", kPsPerSecond}, {"ms", 1'000'000'000},      {"us", 1'000'000},
                                   {"ns", 1'000},       {"min", 60 * kPsPerSecond}, {"h", 3600 * kPsPerSecond},
                                   {"date", 1'000}};

std::int64_t ps_of(const std::string& unit) { return std::ranges::find(kTimeUnits, unit, &TimeUnit::name)->ps; }

// The times of a column as ticks since the first one. Whole numbers stay whole, so that the nanoseconds of a Unix clock
// keep their last digit; only a file that has fractions goes through doubles.
class Clock {
 public:
  Clock(const std::string& unit, std::string what) : unit_(unit), unit_ps_(ps_of(unit)), what_(std::move(what)) {}

  Ticks since_first(std::string_view text, const InputPlace& place) {
    const std::optional<std::int64_t> whole = whole_number(text);
    const std::optional<double> number = whole ? static_cast<double>(*whole) : parse_number(text);
    if (!number || (unit_ == "date" && !whole)) {
      throw InputError(place, fmt::format("this is no {}.", what_));
    }
    if (!first_) {
      first_ = *number;
      first_whole_ = whole;
    }
    if (whole && first_whole_) {
      const std::int64_t since = *whole - *first_whole_;
      require(since >= 0 && since <= kLongestPs / unit_ps_, place);
      return Ticks{since * unit_ps_};
    }
    const double since_s = (*number - *first_) * (static_cast<double>(unit_ps_) / static_cast<double>(kPsPerSecond));
    require(since_s >= 0 && since_s <= Seconds(kLongestRecording).count(), place);
    return to_ticks(Seconds{since_s});
  }

 private:
  static void require(bool in_range, const InputPlace& place) {
    if (!in_range) {
      throw InputError(place, "the time must be within 100 days of the first row's, and not ahead of it.");
    }
  }
  std::optional<std::int64_t> whole_number(std::string_view text) const {
    if (unit_ != "date") {
      const std::optional<std::int64_t> n = parse_integer(text);
      // Beyond +-2^62 a difference might overflow.
      return n && *n > -(std::int64_t{1} << 62) && *n < (std::int64_t{1} << 62) ? n : std::nullopt;
    }
    const auto at = parse_timestamp(text);
    return at ? std::optional<std::int64_t>(at->count()) : std::nullopt;
  }

  std::string unit_;
  std::int64_t unit_ps_;
  std::string what_;
  std::optional<double> first_;
  std::optional<std::int64_t> first_whole_;
};

// Without a header the first line is data, in which no name is looked for.
std::size_t column_of(const CsvReader& rows, const std::string& name, bool header) {
  const std::optional<std::size_t> named = header ? rows.find_column(name) : std::nullopt;
  const std::optional<std::int64_t> number = parse_integer(name);
  if (!named && number && *number >= 0 && *number < static_cast<std::int64_t>(rows.header().size())) {
    return static_cast<std::size_t>(*number);
  }
  return rows.column(name);
}

std::int64_t tokens_of(std::string_view text, const InputPlace& place) {
  const std::optional<std::int64_t> n = parse_integer(text);
  if (!n || *n < 0) {
    throw InputError(place, "a number of tokens is a whole number of 0 or more.");
  }
  return *n;
}

}  // namespace

RequestTable read_request_csv(ByteInput& input, const CsvColumns& columns, const RequestOptions& options) {
  CsvReader rows(input);
  const std::size_t arrival = column_of(rows, columns.arrival, columns.header);
  const std::size_t in = column_of(rows, columns.input, columns.header),
                    out = column_of(rows, columns.output, columns.header);
  Clock clock(columns.time_unit, columns.time_unit == "date" ? "date like '2023-11-16 18:15:46.68' (1970 to 2199)"
                                                             : "finite number, the time in " + columns.time_unit);
  RequestCollector collector(options);
  const auto add = [&](std::string_view at, std::string_view input_tokens, std::string_view output_tokens, int line) {
    const auto place = [&](const std::string& name) { return InputPlace{input.name(), line, name}; };
    collector.add(clock.since_first(at, place(columns.arrival)), tokens_of(input_tokens, place(columns.input)),
                  tokens_of(output_tokens, place(columns.output)), place(columns.arrival));
  };
  if (!columns.header) {
    add(rows.header()[arrival], rows.header()[in], rows.header()[out], 1);
  }
  while (rows.next()) {
    add(rows.text(arrival), rows.text(in), rows.text(out), rows.line_number());
  }
  return collector.finish(input.name());
}

namespace {

constexpr KeyTable kCsvKeys =
    KeyTable({
        {"arrival_column", key::text(), key::kRequired, "Column of the arrival time: a name, or a number from 0."},
        {"input_column", key::text(), key::kRequired, "Column of the prompt length."},
        {"output_column", key::text(), key::kRequired, "Column of the answer length."},
        {"time_unit", key::one_of([] { return entry_names(kTimeUnits); }), key::is("s"),
         "Unit of the arrival column; date: a date and time of day."},
        {"header", key::flag(), key::is(true), "Whether the first line names the columns."},
    }) +
    kRecordingKeys;

RequestTable make_csv(ConfigReader& in, Seed seed) {
  const std::filesystem::path file = in.path(kRecordingKeys["path"]);
  CsvColumns c;
  c.arrival = in.read<std::string>(kCsvKeys["arrival_column"]);
  c.input = in.read<std::string>(kCsvKeys["input_column"]);
  c.output = in.read<std::string>(kCsvKeys["output_column"]);
  c.time_unit = in.read<std::string>(kCsvKeys["time_unit"]);
  c.header = in.read<bool>(kCsvKeys["header"]);
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  ByteInput input(file);
  return read_request_csv(input, c, options);
}

}  // namespace

extern const RequestSource kCsvSource{"csv", "any table with columns for arrival, input and output tokens", make_csv,
                                      kCsvKeys};

}  // namespace epsim
