#include "traces/format/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim {

namespace {

// For messages: long fields are cut, and bytes that are no printable ASCII are shown as '?'.
std::string shown(std::string_view field) {
  std::string out(field.substr(0, 40));
  for (char& c : out) {
    c = c < ' ' || c > '~' ? '?' : c;
  }
  return field.size() > 40 ? out + "..." : out;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) { return number_from<std::int64_t>(text); }

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = number_from<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

CsvReader::CsvReader(ByteInput& input) : lines_(input) {
  std::string_view line;
  refuse_if(!lines_.next(line) || line.empty(), {input.name(), 1, ""},
            "the file is empty; a header line with the column names comes first.");
  split(line);
  header_.assign(fields_.begin(), fields_.end());
}

std::optional<std::size_t> CsvReader::find_column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] == name) {
      return i;
    }
  }
  return std::nullopt;
}

std::size_t CsvReader::column(std::string_view name) const {
  const std::optional<std::size_t> found = find_column(name);
  if (!found) {
    lines_.fail(fmt::format("there is no column '{}'; the header has '{}'.", name,
                            shown(fmt::format("{}", fmt::join(header_, ",")))));
  }
  return *found;
}

bool CsvReader::next() {
  std::string_view line;
  do {
    if (!lines_.next(line)) {
      return false;
    }
  } while (line.empty());
  split(line);
  if (fields_.size() != header_.size()) {
    lines_.fail(fmt::format("the row has {} fields, the header {}.", fields_.size(), header_.size()));
  }
  return true;
}

void CsvReader::split(std::string_view line) {
  fields_.clear();
  unquoted_.clear();
  unquoted_.reserve(line.size());  // so that views into it stay valid while it grows
  std::size_t at = 0;
  for (bool more = true; more;) {
    if (at < line.size() && line[at] == '"') {
      const std::size_t start = unquoted_.size();
      for (++at;; ++at) {
        if (at == line.size()) {
          lines_.fail("a field in double quotes does not end on this line.");
        }
        if (line[at] == '"' && (at + 1 == line.size() || line[at + 1] != '"')) {
          break;
        }
        at += line[at] == '"' ? 1 : 0;  // "" stands for one quote
        unquoted_.push_back(line[at]);
      }
      ++at;
      if (at < line.size() && line[at] != ',') {
        lines_.fail("a field in double quotes is followed by something that is not a comma.");
      }
      fields_.push_back(std::string_view(unquoted_).substr(start));
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      fields_.push_back(line.substr(at, end - at));
      at = end;
    }
    more = at < line.size();
    ++at;
  }
}

std::int64_t CsvReader::integer(std::size_t column) const {
  const std::optional<std::int64_t> value = parse_integer(fields_[column]);
  if (!value) {
    fail(column, fmt::format("'{}' is not a whole number.", shown(fields_[column])));
  }
  return *value;
}

double CsvReader::number(std::size_t column) const {
  const std::optional<double> value = parse_number(fields_[column]);
  if (!value) {
    fail(column, fmt::format("'{}' is not a finite number.", shown(fields_[column])));
  }
  return *value;
}

void CsvReader::fail(std::size_t column, const std::string& problem) const { throw InputError(place(column), problem); }

}  // namespace epsim
