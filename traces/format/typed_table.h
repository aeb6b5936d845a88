// A CSV file as a table: columns of whole numbers where every field is one, text otherwise.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/format/trace.h"

namespace epsim {

// Reads a whole CSV file, at most 2^24 rows. Throws InputError.
Table read_typed_table(const std::filesystem::path& file);

// Whole numbers when every text is one in its usual spelling, so that writing them gives the same texts again.
Table::Column typed_column(std::vector<std::string> texts);

// One field as CSV.
std::string table_field(const Table::Column& column, std::size_t row);

// The table as CSV, the header included; fields that need it in double quotes.
std::string table_csv(const Table& table);

}  // namespace epsim
