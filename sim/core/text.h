// Services for text.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace epsim {

// The number that the whole of `text` is; nothing where it is not one.
template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number value{};
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, value);
  return error == std::errc() && end == text_end ? std::optional(value) : std::nullopt;
}

// `text` with `to` in place of every `from`, which is not empty.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t next = text.find(from); next != std::string_view::npos; next = text.find(from, at)) {
    out.append(text.substr(at, next - at)).append(to);
    at = next + from.size();
  }
  return out.append(text.substr(at));
}

// "1 instance", "2 instances"; "1 copy", "2 copies".
inline std::string count_of(const std::string& number, std::string_view one) {
  const bool y = one.ends_with('y');
  return number + " " +
         (number == "1" ? std::string(one) : std::string(one.substr(0, one.size() - (y ? 1 : 0))) + (y ? "ies" : "s"));
}
inline std::string count_of(std::integral auto number, std::string_view one) {
  return count_of(std::to_string(number), one);
}

// `text` in double quotes, as YAML and Graphviz read it.
inline std::string in_quotes(std::string_view text) {
  return "\"" + replaced(replaced(text, "\\", "\\\\"), "\"", "\\\"") + "\"";
}

}  // namespace epsim
