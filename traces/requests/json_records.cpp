#include "traces/requests/json_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "sim/core/limits.h"

namespace epsim {
namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

constexpr std::int64_t kMaxValue = std::int64_t{1} << 22;  // bytes of one value: a generated text can be long
constexpr std::int64_t kMaxValues = 20'000'000;  // of wanted fields: 0.3 GB; a load generator's run has thousands

// Reads the rest of Python's NaN or Infinity. A minus sign ahead of it is left standing, which makes -Infinity a syntax
// error: nothing that is read here may be minus infinity.
void replace_by_null(ByteInput& input, std::string_view rest, std::string& text) {
  for (const char c : rest) {
    if (input.next() != c) {
      input.fail("this is not a JSON value.");
    }
  }
  text.pop_back();
  text += "null";
}

// The text of the next object, up to its closing bracket or the end of the input. False when nothing is left.
bool next_document(ByteInput& input, std::string& text) {
  text.clear();
  std::int64_t depth = 0, value = 0;
  bool in_string = false, escaped = false;
  for (int c = input.next(); c != ByteInput::kEnd; c = input.next()) {
    const bool mark = (c == 0xEF || c == 0xBB || c == 0xBF) && input.line() == 1;  // a byte order mark
    if (depth == 0 && (mark || c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
      continue;
    }
    if (depth == 0 && c != '{') {
      input.fail("each document must be a JSON object, with nothing but blanks and line ends between them.");
    }
    text.push_back(static_cast<char>(c));
    check_limit(limits::kResultBytes, std::ssize(text), {input.name(), input.line(), ""});
    value = !in_string && (c == ',' || c == '[' || c == '{') ? 0 : value + 1;
    if (value > kMaxValue) {
      input.fail("a single value takes more than 4 MiB; this is not a file of the expected kind.");
    }
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      check_limit(limits::kDepth, ++depth, {input.name(), input.line(), ""});
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return true;
    } else if (c == 'N') {
      replace_by_null(input, "aN", text);
    } else if (c == 'I') {
      replace_by_null(input, "nfinity", text);
    }
  }
  return !text.empty();
}

// The parser's own words, without its place: that counts bytes of one document.
std::string reason_of(const Json::exception& e) {
  std::string words = e.what();
  words = words.substr(std::min(words.find(": ") + 2, words.size())).substr(0, 160);
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return words;
}

Json parse(const ByteInput& input, const std::string& text, const std::vector<std::string_view>& wanted) {
  bool keeping = true;  // what is read now belongs to a wanted field
  std::int64_t kept = 0;
  std::set<std::string> seen;
  const auto keep = [&](int depth, Event event, Json& value) {
    if (event == Event::key && depth == 1) {
      const std::string& name = value.get_ref<const std::string&>();
      keeping = wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
      if (keeping && !seen.insert(name).second) {
        input.fail(fmt::format("`{}` occurs twice in one object.", name.substr(0, 100)));
      }
    } else if (keeping && ++kept > kMaxValues) {
      input.fail(fmt::format("one object has more than {} values.", kMaxValues));
    }
    return keeping || depth == 0;
  };
  try {
    return Json::parse(text, keep);
  } catch (const Json::exception& e) {
    input.fail(fmt::format("this is not valid JSON: {}.", reason_of(e)));
  }
}

// A whole number within 64 bits, written without a fraction.
bool is_integer(const Json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
}

}  // namespace

const Json& JsonRecord::at(std::string_view name) const {
  static const Json nothing;
  const auto found = fields.find(name);
  return found != fields.end() ? *found : nothing;
}

std::string JsonRecord::first_of(const std::vector<std::string_view>& names) const {
  const auto found = std::find_if(names.begin(), names.end(), [&](std::string_view name) { return has(name); });
  return found != names.end() ? std::string(*found) : "";
}

void JsonRecord::fail(const std::string& field, const std::string& problem) const {
  throw InputError({place.file, place.line, field}, problem);
}

std::int64_t JsonRecord::integer(const std::string& name) const {
  if (!is_integer(at(name))) {
    fail(name, "this must be a whole number within 64 bits.");
  }
  return at(name).get<std::int64_t>();
}

double JsonRecord::number(const std::string& name) const {
  if (!at(name).is_number() || !std::isfinite(at(name).get<double>())) {
    fail(name, "this must be a finite number.");
  }
  return at(name).get<double>();
}

std::vector<std::int64_t> JsonRecord::integers(const std::string& name) const {
  if (!at(name).is_array()) {
    fail(name, "this must be a list of whole numbers.");
  }
  std::vector<std::int64_t> out;
  for (const Json& item : at(name)) {
    if (!is_integer(item)) {
      fail(name, fmt::format("item {} of the list is not a whole number within 64 bits.", out.size() + 1));
    }
    out.push_back(item.get<std::int64_t>());
  }
  return out;
}

std::vector<double> JsonRecord::numbers(const std::string& name) const {
  if (!at(name).is_array()) {
    fail(name, "this must be a list of numbers.");
  }
  std::vector<double> out;
  for (const Json& item : at(name)) {
    if (!item.is_number() && !item.is_null()) {
      fail(name, fmt::format("item {} of the list is not a number.", out.size() + 1));
    }
    out.push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.get<double>());
  }
  return out;
}

void read_json_records(ByteInput& input, const std::vector<std::string_view>& wanted,
                       const std::function<void(const JsonRecord&)>& take) {
  for (std::string text; next_document(input, text);) {
    JsonRecord record;
    record.fields = parse(input, text, wanted);
    record.place = {input.name(), input.line(), ""};
    take(record);
  }
}

}  // namespace epsim
