// Finished work as JSON that reads back as it was: numbers exact, and a layout number that tells old files from new.
//
// A struct is kept as a list of its members: EPSIM_STORED(Type, a, b), in the struct's namespace, names all of them in
// their order, and does not compile when one is added and not named.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

namespace epsim {

// T is Kept or const Kept: members() serves writing and reading.
template <class T, class Kept>
concept Is = std::same_as<std::remove_const_t<T>, Kept>;
#define EPSIM_STORED(Type, ...)   \
  template <::epsim::Is<Type> T>  \
  auto members(T& x) {            \
    auto& [__VA_ARGS__] = x;      \
    return std::tie(__VA_ARGS__); \
  }                               \
  static_assert(std::is_class_v<Type>)

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept Struct = requires(T& x) {
  members(x);
};
using NumberOrText = std::variant<double, std::string>;

template <class T>
nlohmann::json stored_json(const T& value) {
  const auto list_of = [](const auto&... each) { return nlohmann::json::array({stored_json(each)...}); };
  if constexpr (std::is_floating_point_v<T>) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_same_v<T, NumberOrText>) {
    return std::visit([](const auto& held) { return stored_json(held); }, value);
  } else if constexpr (kIsList<T>) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& each : value) {
      out.push_back(stored_json(each));
    }
    return out;
  } else if constexpr (kIsOptional<T>) {
    return value ? stored_json(*value) : nlohmann::json(nullptr);
  } else if constexpr (TupleLike<T>) {
    return std::apply(list_of, value);
  } else if constexpr (Struct<const T>) {
    return std::apply(list_of, members(value));
  } else {
    return value;
  }
}

// Throws nlohmann::json::exception when it is not what stored_json() made of a T.
template <class T>
void read_stored_json(const nlohmann::json& json, T& out) {
  const auto read_list = [&json](auto&... each) {
    std::size_t at = 0;
    (read_stored_json(json.at(at++), each), ...);
  };
  if constexpr (std::is_floating_point_v<T>) {
    out = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
  } else if constexpr (std::is_enum_v<T>) {
    out = static_cast<T>(json.get<int>());
  } else if constexpr (std::is_same_v<T, NumberOrText>) {
    json.is_string() ? read_stored_json(json, out.template emplace<std::string>())
                     : read_stored_json(json, out.template emplace<double>());
  } else if constexpr (kIsList<T>) {
    out.clear();
    for (const nlohmann::json& each : json) {
      read_stored_json(each, out.emplace_back());
    }
  } else if constexpr (kIsOptional<T>) {
    json.is_null() ? out.reset() : read_stored_json(json, out.emplace());
  } else if constexpr (TupleLike<T>) {
    std::apply(read_list, out);
  } else if constexpr (Struct<T>) {
    std::apply(read_list, members(out));
  } else {
    json.get_to(out);
  }
}

// `content` as a file of this layout.
template <class T>
std::string store_text(int format, const T& content) {
  const nlohmann::json file{{"format", format}, {"content", stored_json(content)}};
  return file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Nothing when the text is damaged (by a crash of the machine, say) or of another layout: the work is then done again.
template <class T>
std::optional<T> read_stored(const std::string& text, int format) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") == format) {
      std::optional<T> out(std::in_place);
      read_stored_json(json.at("content"), *out);
      return out;
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace epsim
