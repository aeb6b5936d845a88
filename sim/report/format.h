// Numbers and text as the writers print them. Files get numbers that read back exactly; terminals get rounded ones.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "sim/core/statistics.h"
#include "sim/core/units.h"

namespace epsim {

// A figure that is not defined, such as a mean latency over no request: null in JSON, an empty cell in CSV, "-" in
// tables.
inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// numerator / denominator, kUndefined unless the denominator is positive.
double ratio(double numerator, double denominator);

// A statistic of latencies in seconds, in ms; kUndefined over no request.
double ms_of(const Summary& latency, double Summary::*statistic);

// Shortest text that reads back as the same number; empty when the number is not finite.
std::string exact(double value);

// A span of time as an exact decimal, no rounding: 1500000000 ps is "1.5" ms.
std::string exact_seconds(Ticks time);
std::string exact_ms(Ticks time);

// About four significant digits, never an exponent: 0, 0.1234, 12.34, 1234, 123456.
std::string rounded(double value);
std::string fixed(double value, int digits);
// As rounded(), with separators from five digits on: 1234, 123,456.
std::string money(double value);

// A share as a percentage with one digit: 0.123 is "12.3"; with a sign, "+12.3", "-0.4", "0.0".
std::string percent(double share);
std::string signed_percent(double share);

// 1234567 is "1,234,567".
std::string grouped(std::int64_t value);

// Text for a terminal: control characters, which could move the cursor or change its colour, become '?'.
std::string printable(std::string_view text);

// Width in terminal columns, one per code point, and the text cut to that width with a closing "~".
std::size_t display_width(std::string_view text);
std::string shortened(std::string_view text, std::size_t columns);

// Breaks a paragraph at spaces to the given width; lines after the first begin with `indent` spaces. `start` columns of
// the first line are already taken.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent, std::size_t start = 0);

}  // namespace epsim
