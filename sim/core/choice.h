// Names of the values of an enumeration, as configurations and reports spell them. The table stands beside the
// enumeration:
//
//   enum class StepSync { kBarrier, kPairwise };
//   template <>
//   inline constexpr auto kNames<StepSync> =
//       choice<StepSync>({{"barrier", StepSync::kBarrier}, {"pairwise", StepSync::kPairwise}});
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

template <class Enum>
struct NamedValue {
  std::string_view name;
  Enum value;
};

template <class Enum>
inline constexpr int kNames = 0;  // no table

template <class Enum, std::size_t N>
constexpr std::array<NamedValue<Enum>, N> choice(const NamedValue<Enum> (&rows)[N]) {
  return std::to_array(rows);
}
// Of an enumeration that counts from 0, its names in order.
template <class Enum, std::size_t N>
constexpr std::array<NamedValue<Enum>, N> choice_in_order(const std::array<std::string_view, N>& names) {
  std::array<NamedValue<Enum>, N> out{};
  for (std::size_t i = 0; i < N; ++i) {
    out[i] = {names[i], static_cast<Enum>(i)};
  }
  return out;
}

template <class Enum>
constexpr std::string_view name_of(Enum value) {
  for (const auto& row : kNames<Enum>) {
    if (row.value == value) {
      return row.name;
    }
  }
  return {};
}

template <class Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  for (const auto& row : kNames<Enum>) {
    if (row.name == name) {
      return row.value;
    }
  }
  return std::nullopt;
}

template <class Enum>
std::vector<std::string> names_of() {
  std::vector<std::string> out;
  for (const auto& row : kNames<Enum>) {
    out.emplace_back(row.name);
  }
  return out;
}

// The names of a table's entries.
template <class Entries>
std::vector<std::string> entry_names(const Entries& entries) {
  std::vector<std::string> out;
  for (const auto& entry : entries) {
    out.emplace_back(entry.name);
  }
  return out;
}

}  // namespace epsim
