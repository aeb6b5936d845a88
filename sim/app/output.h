// Where the one document of a verb goes: to standard output, which then carries nothing else, or to a file.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "sim/app/po.h"

namespace epsim::app {

// While it lives and is wanted, standard output carries one document alone: what is told there goes to standard error.
class SoleOutput {
 public:
  explicit SoleOutput(bool wanted);
  ~SoleOutput();
  SoleOutput(const SoleOutput&) = delete;
  SoleOutput& operator=(const SoleOutput&) = delete;
  bool wanted() const { return out_ != nullptr; }
  // Writes the document to standard output when it is wanted. Throws RunFailed when it cannot be written.
  void print(const std::string& document) const;

 private:
  std::streambuf* out_ = nullptr;
};

// --json, of the verbs that tell a result; `holds` says what the object holds.
void add_json_option(po::options_description& options, const std::string& holds);
// The document of --json.
class JsonOutput : public SoleOutput {
 public:
  explicit JsonOutput(const po::variables_map& values);
};

// --output and --overwrite, of the verbs that write one file; `what` describes it.
void add_file_output(po::options_description& options, const std::string& what);

// The text that a verb writes: --output FILE, "-" for standard output.
class FileOutput {
 public:
  // Without --output: `fallback`, or an InputError where that is empty. Throws InputError when the file exists and
  // --overwrite is not among the options, is a folder or a device, or has no folder to be in.
  explicit FileOutput(const po::variables_map& values, const std::string& fallback = "");
  // Writes the text, then tells where: "plan: plan.json". Throws RunFailed.
  void write(const std::string& text, const std::string& label) const;
  const std::filesystem::path& path() const { return path_; }
  bool to_standard_output() const { return sole_.wanted(); }

 private:
  std::filesystem::path path_;
  SoleOutput sole_;
};

// The same for what is no text: refuses standard output.
std::filesystem::path hdf5_output(const po::variables_map& values);

// The folder of --output, if it is named. Refuses standard output, which takes no folder.
std::optional<std::filesystem::path> named_folder(const po::variables_map& values);

}  // namespace epsim::app
