#include "sim/report/format.h"

#include <fmt/format.h>

#include <cmath>

namespace epsim {
namespace {

// `value` / 10^digits as a decimal without trailing zeros. Integers only, so nothing is rounded.
std::string exact_decimal(std::int64_t value, int digits) {
  std::uint64_t scale = 1;
  for (int i = 0; i < digits; ++i) {
    scale *= 10;
  }
  // Negation in unsigned arithmetic is defined for the most negative value too.
  const std::uint64_t magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  std::string text = fmt::format("{}{}", value < 0 ? "-" : "", magnitude / scale);
  if (magnitude % scale != 0) {
    text += fmt::format(".{:0{}}", magnitude % scale, digits);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}

bool continues_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

double ratio(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : kUndefined; }

double ms_of(const Summary& latency, double Summary::*statistic) {
  return latency.count > 0 ? latency.*statistic * 1e3 : kUndefined;
}

std::string exact(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

std::string exact_seconds(Ticks time) { return exact_decimal(time.count(), 12); }
std::string exact_ms(Ticks time) { return exact_decimal(time.count(), 9); }

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) {
    return "-";
  }
  std::string text = fmt::format("{:.{}f}", value, digits);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text[0] == '-' ? text.substr(1) : text;  // no "-0.0"
}

std::string rounded(double value) {
  const double size = std::abs(value);
  if (size == 0) {
    return "0";
  }
  return fixed(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

std::string percent(double share) { return fixed(share * 100, 1); }

std::string signed_percent(double share) {
  const std::string text = percent(share);
  const bool has_value = text.find_first_of("123456789") != std::string::npos;
  return has_value && text[0] != '-' ? fmt::format("+{}", text) : text;
}

std::string grouped(std::int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    const bool between_digits = i > 0 && digits[i - 1] != '-';
    if (between_digits && left % 3 == 0) {
      out += ',';
    }
    out += digits[i];
  }
  return out;
}

std::string money(double value) {
  constexpr double kFiveDigits = 9999.5, kMost = 1e18;
  return value >= kFiveDigits && value < kMost ? grouped(std::llround(value)) : rounded(value);
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    c = byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) {
    width += continues_code_point(c) ? 0 : 1;
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) {
    return std::string(text);
  }
  std::string out;
  std::size_t width = 0;
  for (const char c : text) {
    width += continues_code_point(c) ? 0 : 1;
    if (width >= columns) {
      break;
    }
    out += c;
  }
  return out + "~";
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent, std::size_t start) {
  std::string out;
  std::size_t used = start;
  bool line_is_fresh = true;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (!line_is_fresh && used + 1 + display_width(word) > columns) {
      out += '\n';
      out.append(indent, ' ');
      used = indent;
    } else if (!line_is_fresh) {
      out += ' ';
      ++used;
    }
    out += word;
    used += display_width(word);
    line_is_fresh = false;
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out;
}

}  // namespace epsim
