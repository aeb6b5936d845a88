// The words after `epsim trace`.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/app/command_line.h"
#include "traces/commands/trace_commands.h"

namespace epsim::app {

int trace_info_words(const std::vector<std::string>& words);
int trace_import_words(const std::vector<std::string>& words);
int trace_convert_words(const std::vector<std::string>& words);
int trace_slice_words(const std::vector<std::string>& words);
int trace_fit_words(const std::vector<std::string>& words);
int trace_generate_words(const std::vector<std::string>& words);
int trace_compare_words(const std::vector<std::string>& words);

// A positional argument; InputError saying what it names when it is missing.
std::string argument(const po::variables_map& values, const std::string& name, const std::string& what);
// As argument(), of a file to read, which may be an installed one: shipped_file().
std::string file_argument(const po::variables_map& values, const std::string& name, const std::string& what);

// What a recording does not say about itself: --format, --model, --experts, --top-k and so on.
void add_import_options(po::options_description& options);
std::string recording_format(const po::variables_map& values);
ImportOptions import_options(const po::variables_map& values);
// The traces of these positional arguments. Throws InputError for an option of a recording where none is one.
std::deque<OpenedTrace> open_traces(const po::variables_map& values, const std::vector<std::string>& files);
// Whole numbers separated by commas; none when the option is absent.
std::vector<int> number_list(const po::variables_map& values, const char* option);
std::int64_t whole_number(const std::string& text, const std::string& option);

}  // namespace epsim::app
