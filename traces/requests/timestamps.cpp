#include "traces/requests/timestamps.h"

#include <cstdint>

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

// "dddd-dd-dd" as a day, or nothing.
std::optional<std::chrono::sys_days> parse_day(std::string_view text) {
  const int year = digits(text.substr(0, 4)), month = digits(text.substr(5, 2)), day = digits(text.substr(8, 2));
  if (text[4] != '-' || text[7] != '-' || year < 1970 || year > 2199 || month < 1 || day < 1) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  return date.ok() ? std::optional(std::chrono::sys_days(date)) : std::nullopt;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_timestamp(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd dd:dd:dd";
  if (text.ends_with("+00:00")) {
    text.remove_suffix(6);
  } else if (text.ends_with("Z")) {
    text.remove_suffix(1);
  }
  if (text.size() < kShape.size() || (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const std::optional<std::chrono::sys_days> day = parse_day(text);
  const int hour = digits(text.substr(11, 2)), minute = digits(text.substr(14, 2)), second = digits(text.substr(17, 2));
  std::int64_t ns = 0;
  if (text.size() > kShape.size()) {
    ns = text[19] == '.' ? fraction_ns(text.substr(20)) : -1;
  }
  if (!day || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || ns < 0) {
    return std::nullopt;
  }
  return day->time_since_epoch() + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second) + std::chrono::nanoseconds(ns);
}

}  // namespace epsim
