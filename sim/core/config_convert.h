// How each type that a configuration may hold is read from YAML and written back for the echo. Private to
// sim/core: yaml-cpp stays hidden from everybody else.
#pragma once

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core/key.h"
#include "sim/core/quantity.h"
#include "sim/core/units.h"

namespace epsim::yaml {

// How each type is read from YAML text and written back for the echo, and what it is called.
template <class T>
struct Convert;

template <class T>
inline constexpr ValueType kTypeOf = ValueType::kText;
template <>
inline constexpr ValueType kTypeOf<bool> = ValueType::kBool;
template <>
inline constexpr ValueType kTypeOf<int> = ValueType::kWhole;
template <>
inline constexpr ValueType kTypeOf<std::int64_t> = ValueType::kWhole;
template <>
inline constexpr ValueType kTypeOf<double> = ValueType::kNumber;
template <>
inline constexpr ValueType kTypeOf<Seconds> = ValueType::kTime;
template <>
inline constexpr ValueType kTypeOf<Bytes> = ValueType::kBytes;
template <>
inline constexpr ValueType kTypeOf<BytesPerSecond> = ValueType::kByteRate;
template <>
inline constexpr ValueType kTypeOf<FlopsPerSecond> = ValueType::kFlopRate;
template <>
inline constexpr ValueType kTypeOf<RequestsPerSecond> = ValueType::kRequestRate;
template <>
inline constexpr ValueType kTypeOf<std::vector<double>> = ValueType::kNumbers;
template <>
inline constexpr ValueType kTypeOf<NumberOrList> = ValueType::kNumberOrList;
template <>
inline constexpr ValueType kTypeOf<std::vector<std::int64_t>> = ValueType::kWholes;
template <>
inline constexpr ValueType kTypeOf<std::vector<std::string>> = ValueType::kTexts;
template <>
inline constexpr ValueType kTypeOf<std::vector<std::vector<double>>> = ValueType::kTable;

[[noreturn]] inline void wrong_type(const std::string& text, const std::string& expected) {
  throw std::invalid_argument(fmt::format("'{}' is not {}.", text, expected));
}

inline void check_range(double value, const Range& range, const std::string& text) {
  if (!std::isfinite(value)) {
    wrong_type(text, "a finite number");
  }
  if (range.above ? !(value > range.least) : !(value >= range.least)) {
    if (range.least == 0) {
      wrong_type(text, range.above ? "positive; it must be greater than 0" : "allowed here: it must not be negative");
    }
    throw std::invalid_argument(
        fmt::format("'{}' is too small: it must be {} {}.", text, range.above ? "above" : "at least", range.least));
  }
  if (range.below ? !(value < range.most) : !(value <= range.most)) {
    throw std::invalid_argument(
        fmt::format("'{}' is too large: it must be {} {}.", text, range.below ? "below" : "at most", range.most));
  }
}

inline std::string scalar_text(const YAML::Node& node, const std::string& expected) {
  if (!node.IsScalar()) {
    throw std::invalid_argument(fmt::format("this is {}, not {}.",
                                            node.IsMap()        ? "a mapping"
                                            : node.IsSequence() ? "a list"
                                                                : "empty",
                                            expected));
  }
  return node.Scalar();
}

template <>
struct Convert<std::string> {
  static std::string read(const YAML::Node& n, const Range&) { return scalar_text(n, "a word"); }
  static YAML::Node write(const std::string& v) { return YAML::Node(v); }
};
template <>
struct Convert<bool> {
  static bool read(const YAML::Node& n, const Range&) {
    const std::string text = scalar_text(n, "true or false");
    bool value = false;
    if (!YAML::convert<bool>::decode(n, value)) {
      wrong_type(text, "true or false");
    }
    return value;
  }
  static YAML::Node write(bool v) { return YAML::Node(v); }
};
template <>
struct Convert<std::int64_t> {
  static std::int64_t read(const YAML::Node& n, const Range& range) {
    const std::string text = scalar_text(n, "a whole number");
    std::int64_t value = 0;
    if (!YAML::convert<std::int64_t>::decode(n, value)) {
      double real = 0;  // 1e6 is a fine way to write a whole number
      if (!YAML::convert<double>::decode(n, real) || real != std::floor(real) || std::fabs(real) > 9.0e15) {
        wrong_type(text, "a whole number");
      }
      value = static_cast<std::int64_t>(real);
    }
    check_range(static_cast<double>(value), range, text);
    return value;
  }
  static YAML::Node write(std::int64_t v) { return YAML::Node(v); }
};
template <>
struct Convert<int> {
  static int read(const YAML::Node& n, const Range& range) {
    const std::int64_t value = Convert<std::int64_t>::read(n, range);
    if (value > 2147483647 || value < -2147483647) {
      wrong_type(n.Scalar(), "within +-2147483647");
    }
    return static_cast<int>(value);
  }
  static YAML::Node write(int v) { return YAML::Node(v); }
};
template <>
struct Convert<double> {
  static double read(const YAML::Node& n, const Range& range) {
    const std::string text = scalar_text(n, "a number");
    double value = 0;
    if (!YAML::convert<double>::decode(n, value)) {
      wrong_type(text, "a number");
    }
    check_range(value, range, text);
    return value;
  }
  static YAML::Node write(double v) { return YAML::Node(fmt::format("{}", v)); }
};

// Quantities: text with a unit in, text with the base unit out.
template <class T, const char* Dimension, const char* Unit>
struct ConvertQuantity {
  static T read(const YAML::Node& n, const Range& range) {
    const std::string text = scalar_text(n, std::string("a ") + Dimension);
    std::string problem;
    const std::optional<double> value = parse_quantity(text, Dimension, problem);
    if (!value) {
      throw std::invalid_argument(problem);
    }
    check_range(*value, range, text);
    return T(*value);
  }
  static YAML::Node write(const T& v) { return YAML::Node(fmt::format("{}{}", v.count(), Unit)); }
};
inline constexpr char kTime[] = "time", kSecond[] = "s";
inline constexpr char kSize[] = "bytes", kByte[] = "B";
inline constexpr char kByteRate[] = "byte rate", kBytePerSecond[] = "B/s";
inline constexpr char kFlopRate[] = "flop rate", kTeraflop[] = "TF/s";
inline constexpr char kRequestRate[] = "request rate", kPerSecond[] = "/s";
template <>
struct Convert<Seconds> : ConvertQuantity<Seconds, kTime, kSecond> {};
template <>
struct Convert<Bytes> : ConvertQuantity<Bytes, kSize, kByte> {};
template <>
struct Convert<BytesPerSecond> : ConvertQuantity<BytesPerSecond, kByteRate, kBytePerSecond> {};
template <>
struct Convert<RequestsPerSecond> : ConvertQuantity<RequestsPerSecond, kRequestRate, kPerSecond> {};
template <>
struct Convert<FlopsPerSecond> : ConvertQuantity<FlopsPerSecond, kFlopRate, kTeraflop> {
  static YAML::Node write(const FlopsPerSecond& v) {
    const double tera = v.count() / 1e12;  // the usual unit, where it gives the same number back
    return YAML::Node(tera * 1e12 == v.count() ? fmt::format("{}TF/s", tera) : fmt::format("{}F/s", v.count()));
  }
};

template <class T>
struct Convert<std::vector<T>> {
  static std::vector<T> read(const YAML::Node& n, const Range& range) {
    if (!n.IsSequence()) {
      wrong_type(n.IsScalar() ? n.Scalar() : "a mapping", "a list in [brackets]");
    }
    std::vector<T> out;
    for (const YAML::Node& item : n) {
      out.push_back(Convert<T>::read(item, range));
    }
    return out;
  }
  static YAML::Node write(const std::vector<T>& v) {
    YAML::Node list(YAML::NodeType::Sequence);
    for (const T& item : v) {
      list.push_back(Convert<T>::write(item));
    }
    list.SetStyle(YAML::EmitterStyle::Flow);
    return list;
  }
};

template <>
struct Convert<NumberOrList> {
  static NumberOrList read(const YAML::Node& n, const Range& range) {
    return {n.IsSequence() ? Convert<std::vector<double>>::read(n, range)
                           : std::vector<double>{Convert<double>::read(n, range)}};
  }
  static YAML::Node write(const NumberOrList& v) {
    return v.values.size() == 1 ? Convert<double>::write(v.values.front())
                                : Convert<std::vector<double>>::write(v.values);
  }
};

// A value as a document would say it.
inline std::string text_of(const YAML::Node& value) {
  YAML::Emitter out;
  out << value;
  return value.IsScalar() ? value.Scalar() : value.IsNull() ? "" : out.c_str();
}

}  // namespace epsim::yaml
