// Azure's LLM inference traces (github.com/Azure/AzurePublicDataset, 2023): one row per request.
#include <chrono>

#include "traces/csv.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

// The digits of `text` as a number, or -1. Fixed-width fields of a date have no sign and no blank.
int digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return -1;
    }
    value = value * 10 + (c - '0');
  }
  return text.empty() ? -1 : value;
}

// The nanoseconds that a fraction of 1 to 9 digits stands for, or -1.
std::int64_t fraction_ns(std::string_view text) {
  std::int64_t ns = text.size() <= 9 ? digits(text) : -1;
  for (std::size_t i = text.size(); i < 9 && ns >= 0; ++i) {
    ns *= 10;
  }
  return ns;
}

// "2023-11-16 18:15:46.6805900" as nanoseconds since 1970, in integers throughout: no digit is lost.
std::optional<std::chrono::nanoseconds> parse_timestamp(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  if (text.ends_with("+00:00")) {
    text.remove_suffix(6);
  }
  if (text.size() < kShape.size() || text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T') ||
      text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const int year = digits(text.substr(0, 4)), month = digits(text.substr(5, 2)), day = digits(text.substr(8, 2));
  const int hour = digits(text.substr(11, 2)), minute = digits(text.substr(14, 2)), second = digits(text.substr(17, 2));
  std::int64_t ns = 0;
  if (text.size() > kShape.size()) {
    ns = text[19] == '.' ? fraction_ns(text.substr(20)) : -1;
  }
  // 1970 to 2199: what an int64 of nanoseconds holds, with room.
  if (year < 1970 || year > 2199 || month < 1 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 59 || ns < 0) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) {
    return std::nullopt;
  }
  return std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + std::chrono::nanoseconds(ns);
}

}  // namespace

RequestTrace read_azure_csv(ByteInput& input, const RequestOptions& options) {
  CsvReader rows(input);
  const std::size_t time = rows.column("TIMESTAMP");
  const std::size_t context = rows.column("ContextTokens"), generated = rows.column("GeneratedTokens");
  RequestCollector collector(options);
  std::optional<std::chrono::nanoseconds> first;
  while (rows.next()) {
    const auto at = parse_timestamp(rows.text(time));
    if (!at) {
      rows.fail(time, "this is no time like '2023-11-16 18:15:46.6805900' (years 1970 to 2199, at most 9 decimals).");
    }
    first = first.value_or(*at);
    const std::chrono::nanoseconds since = *at - *first;
    if (since > std::chrono::days(100)) {
      rows.fail(time, "this is more than 100 days after the first row, longer than a run can be.");
    }
    collector.add(since, rows.integer(context), rows.integer(generated), rows.place(time));
  }
  return collector.finish(input.name());
}

RequestTrace make_azure_csv(ConfigReader& in, Seed) {
  const std::filesystem::path file = in.path("path");
  const RequestOptions options = read_request_options(in, false);
  ByteInput input(file);
  return read_azure_csv(input, options);
}

}  // namespace epsim
