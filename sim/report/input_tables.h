// The CSV files of an output folder, checked before a report is made from them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace epsim {

// Values of columns, under their names.
using Columns = std::vector<std::pair<std::string, std::vector<double>>>;

// The latencies in a run's requests.csv that are defined, in ms. Throws InputError where the file is damaged.
Columns request_latencies(const std::filesystem::path& file, std::size_t& rows);

// Throws InputError where a table that epsim writes under this file's name is cut short, has a row of another length, lacks
// a column that the report draws, or text in one of numbers. Tables that it does not write pass.
void check_table(const std::filesystem::path& file);

}  // namespace epsim
