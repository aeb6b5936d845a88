#include "sim/app/output.h"

#include <iostream>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStandardOutput = "-";

std::string output_name(const po::variables_map& values, const std::string& fallback) {
  const std::string name = values.count("output") > 0 ? values["output"].as<std::string>() : fallback;
  refuse_if(name.empty(), "output", "name the file to write, as in -o FILE.");
  return name;
}

void check_file(const fs::path& file, bool overwrite) {
  std::error_code ignored;
  const InputPlace at{file.string(), 0, ""};
  refuse_if(fs::is_directory(file, ignored), at, "this is a folder; name a file.");
  refuse_if(fs::exists(file, ignored) && !fs::is_regular_file(file, ignored), at,
            "this is a device or a pipe, which the file would replace; name a file, or - for standard "
            "output.");
  refuse_if(fs::exists(file, ignored) && !overwrite, at,
            "the file exists; name another, or add --overwrite to replace it.");
  refuse_if(file.has_parent_path() && !fs::is_directory(file.parent_path(), ignored), at,
            "there is no such folder to write the file to.");
}

}  // namespace

SoleOutput::SoleOutput(bool wanted) {
  if (wanted) {
    out_ = std::cout.rdbuf(std::cerr.rdbuf());
  }
}

SoleOutput::~SoleOutput() {
  if (wanted()) {
    std::cout.rdbuf(out_);
  }
}

void SoleOutput::print(const std::string& document) const {
  if (!wanted()) {
    return;
  }
  std::ostream out(out_);
  out << document << std::flush;
  if (!out) {
    throw RunFailed("standard output cannot be written; is the disk full?");
  }
}

void add_json_option(po::options_description& options, const std::string& holds) {
  const std::string text =
      "print one JSON object on standard output, and everything else on standard error. It holds " + holds;
  options.add_options()("json", po::bool_switch(), text.c_str());
}

JsonOutput::JsonOutput(const po::variables_map& values) : SoleOutput(values["json"].as<bool>()) {}

void add_file_output(po::options_description& options, const std::string& what) {
  options.add_options()("output,o", po::value<std::string>(), what.c_str())("overwrite", po::bool_switch(),
                                                                            "replace the file if it exists");
}

FileOutput::FileOutput(const po::variables_map& values, const std::string& fallback)
    : path_(output_name(values, fallback)), sole_(path_ == kStandardOutput) {
  if (!to_standard_output()) {
    check_file(path_, values["overwrite"].as<bool>());
  }
}

void FileOutput::write(const std::string& text, const std::string& label) const {
  sole_.print(text);
  if (!to_standard_output()) {
    write_file_atomically(path_, text);
    std::cout << label << ": " << path_.string() << "\n";
  }
}

fs::path hdf5_output(const po::variables_map& values) {
  const fs::path file = output_name(values, "");
  refuse_if(file == kStandardOutput, "output",
            "the file is HDF5, which cannot be written to standard output; name a file. `epsim trace convert` "
            "makes text of it.");
  check_file(file, values["overwrite"].as<bool>());
  return file;
}

std::optional<fs::path> named_folder(const po::variables_map& values) {
  if (values.count("output") == 0) {
    return std::nullopt;
  }
  const fs::path folder = values["output"].as<std::string>();
  refuse_if(folder == kStandardOutput, "output",
            "the results are a folder, which cannot be written to standard output; name a folder.");
  return folder;
}

}  // namespace epsim::app
