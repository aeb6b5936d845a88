#include "traces/format/typed_table.h"

#include "sim/core/text.h"
#include "traces/format/csv.h"

namespace epsim {

namespace {

constexpr std::size_t kMaxTableRows = std::size_t{1} << 24;

std::string quoted(const std::string& text) {
  const bool plain = text.find_first_of(",\"") == std::string::npos;
  return plain ? text : "\"" + replaced(text, "\"", "\"\"") + "\"";
}

}  // namespace

std::string table_field(const Table::Column& column, std::size_t row) {
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&column)) {
    return std::to_string((*numbers)[row]);
  }
  return quoted(std::get<std::vector<std::string>>(column)[row]);
}

Table::Column typed_column(std::vector<std::string> texts) {
  std::vector<std::int64_t> numbers;
  for (const std::string& text : texts) {
    const std::optional<std::int64_t> value = parse_integer(text);
    if (!value || std::to_string(*value) != text) {
      return texts;
    }
    numbers.push_back(*value);
  }
  return numbers;
}

Table read_typed_table(const std::filesystem::path& file) {
  ByteInput input(file);
  CsvReader rows(input);
  std::vector<std::vector<std::string>> texts(rows.header().size());
  while (rows.next()) {
    for (std::size_t c = 0; c < texts.size(); ++c) {
      texts[c].emplace_back(rows.text(c));
    }
    if (texts[0].size() > kMaxTableRows) {
      input.fail("the table has more than 2^24 rows.");
    }
  }
  Table out;
  for (std::size_t c = 0; c < texts.size(); ++c) {
    out.columns.emplace_back(rows.header()[c], typed_column(std::move(texts[c])));
  }
  return out;
}

std::string table_csv(const Table& table) {
  std::string out;
  for (const auto& [title, column] : table.columns) {
    out.append(out.empty() ? "" : ",").append(quoted(title));
  }
  out.push_back('\n');
  for (std::size_t r = 0; r < table.rows(); ++r) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      out.append(c == 0 ? "" : ",").append(table_field(table.columns[c].second, r));
    }
    out.push_back('\n');
  }
  return out;
}

}  // namespace epsim
