// A key of a configuration: one row says all there is to say about it, and its reader takes the value through the row.
//
//   constexpr KeyTable kKeys({
//       {"sync", key::one_of<StepSync>(), key::is(StepSync::kBarrier), "How exchanges wait for each other."},
//       {"speed", key::number(kPositiveShare), key::is(1.0), "Share of its speed that remains."},
//   });
//   ...
//   out.speed = in.read<double>(kKeys["speed"]);   // a name without a row does not compile
//
// Lists, reference pages and schemas are made from the same rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sim/core/choice.h"
#include "sim/core/units.h"

namespace epsim {

// What a number may be; applies to plain numbers and to quantities.
enum class Bound { kPositive, kNotNegative, kAny };

// The same, with limits of any value.
struct Range {
  constexpr Range(Bound bound = Bound::kNotNegative)
      : least(bound == Bound::kAny ? -std::numeric_limits<double>::infinity() : 0), above(bound == Bound::kPositive) {}
  static constexpr Range between(double least, double most) {
    Range out;
    out.least = least;
    out.most = most;
    return out;
  }
  bool operator==(const Range&) const = default;

  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  // `least` itself is not allowed
  bool below = false;  // `most` itself is not allowed
};
constexpr Range at_least(double least) { return Range::between(least, std::numeric_limits<double>::infinity()); }
constexpr Range at_most(double most, Bound bound = Bound::kNotNegative) {
  Range out(bound);
  out.most = most;
  return out;
}
constexpr Range below(double most, Bound bound = Bound::kNotNegative) {
  Range out = at_most(most, bound);
  out.below = true;
  return out;
}
inline constexpr Range kShare = at_most(1), kPositiveShare = at_most(1, Bound::kPositive);

// What a key holds.
enum class ValueType {
  kBool,
  kWhole,
  kNumber,
  kText,
  kTime,
  kBytes,
  kByteRate,
  kFlopRate,
  kRequestRate,
  kNumbers,  // lists
  kWholes,
  kTexts,
  kTable,     // a list of lists of numbers
  kPath,      // a file or a folder
  kSection,   // a mapping
  kSections,  // a list of mappings
  kNumberOrList,
};

// A number where a list of them may stand.
struct NumberOrList {
  std::vector<double> values;
};

namespace key {

// What a key takes.
struct Value {
  ValueType type = ValueType::kText;
  Range range{};                                    // of numbers and quantities
  std::vector<std::string> (*choices)() = nullptr;  // names that it may be; null: any text
  bool open = false;                                // other texts are possible too: a file, a label
  std::string_view listed_by = {};                  // the command that lists them, where they are many
};
constexpr Value flag() { return {ValueType::kBool}; }
constexpr Value whole(Range range = {}) { return {ValueType::kWhole, range}; }
constexpr Value number(Range range = {}) { return {ValueType::kNumber, range}; }
constexpr Value text() { return {ValueType::kText}; }
constexpr Value time(Range range = {}) { return {ValueType::kTime, range}; }
constexpr Value bytes(Range range = {}) { return {ValueType::kBytes, range}; }
constexpr Value byte_rate(Range range = {}) { return {ValueType::kByteRate, range}; }
constexpr Value flop_rate(Range range = {}) { return {ValueType::kFlopRate, range}; }
constexpr Value request_rate(Range range = {}) { return {ValueType::kRequestRate, range}; }
constexpr Value numbers(Range range = {}) { return {ValueType::kNumbers, range}; }
constexpr Value number_or_list(Range range = {}) { return {ValueType::kNumberOrList, range}; }
constexpr Value wholes(Range range = {}) { return {ValueType::kWholes, range}; }
constexpr Value texts() { return {ValueType::kTexts}; }
constexpr Value path() { return {ValueType::kPath}; }
constexpr Value section() { return {ValueType::kSection}; }
constexpr Value sections() { return {ValueType::kSections}; }
// The names of an enumeration (choice.h), or those that a function gives.
template <class Enum>
constexpr Value one_of() {
  return {ValueType::kText, {}, names_of<Enum>};
}
constexpr Value one_of(std::vector<std::string> (*names)(), std::string_view listed_by = {}) {
  return {ValueType::kText, {}, names, false, listed_by};
}
// One of those names, or something else that its reader knows: a file, a label.
constexpr Value name_or_other(std::vector<std::string> (*names)(), std::string_view listed_by = {}) {
  return {ValueType::kText, {}, names, true, listed_by};
}

// What a key is where the document does not say.
struct Fallback {
  enum class Kind { kRequired, kNone, kValue, kWorkedOut };
  Kind kind = Kind::kNone;
  double number = 0;            // kValue: of flags, numbers and quantities in their base unit
  std::string_view words = {};  // kValue: of texts; kWorkedOut: what it comes from, for people
};
inline constexpr Fallback kRequired{Fallback::Kind::kRequired}, kNone{};
// The reader works it out, from the hardware or from other keys: "the engine's, by GPU". Words that begin with
// "required" say when the key has to be there.
constexpr Fallback by(std::string_view words) { return {Fallback::Kind::kWorkedOut, 0, words}; }
template <class T>
constexpr Fallback is(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return {Fallback::Kind::kValue, 0, name_of(value)};
  } else if constexpr (std::is_arithmetic_v<T>) {
    return {Fallback::Kind::kValue, static_cast<double>(value)};
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    return {Fallback::Kind::kValue, 0, value};
  } else {
    return {Fallback::Kind::kValue, value.count()};
  }
}

}  // namespace key

struct Key {
  std::string_view name;
  key::Value value;
  key::Fallback fallback;
  std::string_view sentence;
};

// The default as a document would say it: "0.5", "60s". Empty for what has none of its own.
std::string default_text(const Key& key);

// The keys of a section, or of one kind of it.
template <std::size_t N>
class KeyTable {
 public:
  consteval explicit KeyTable(const Key (&rows)[N]) {
    for (std::size_t i = 0; i < N; ++i) {
      rows_[i] = rows[i];
    }
  }
  consteval const Key& operator[](std::string_view name) const {
    for (const Key& row : rows_) {
      if (row.name == name) {
        return row;
      }
    }
    throw "no row has this name";
  }
  constexpr operator std::span<const Key>() const { return rows_; }
  // The same table with another default of one key, for a preset.
  consteval KeyTable with_default(std::string_view name, key::Fallback fallback) const {
    KeyTable out = *this;
    for (Key& row : out.rows_) {
      if (row.name == name) {
        row.fallback = fallback;
        return out;
      }
    }
    throw "no row has this name";
  }

 private:
  Key rows_[N]{};
};

// The rows of both: what a kind has of its own, and what it shares with others.
template <std::size_t N, std::size_t M>
consteval KeyTable<N + M> operator+(const KeyTable<N>& own, const KeyTable<M>& shared) {
  Key rows[N + M]{};
  const std::span<const Key> first = own, second = shared;
  std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), rows));
  return KeyTable(rows);
}

// What the readers of a section take their values through; with `variant` for that kind of the section alone.
struct SectionKeys {
  std::string_view section, variant;  // dotted; [] for the items of a list
  std::span<const Key> keys;
};

// Those of each entry of a table of kinds.
template <class Entries>
void add_entries(std::string_view section, const Entries& entries, std::vector<SectionKeys>& out) {
  for (const auto& entry : entries) {
    out.push_back({section, entry.name, entry.keys});
  }
}

}  // namespace epsim
