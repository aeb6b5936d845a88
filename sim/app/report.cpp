// `epsim report`: the output of another verb as one HTML file.
#include <fmt/format.h>

#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/report_verb.h"
#include "sim/core/files.h"
#include "sim/report/html_report.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

void check_target(const fs::path& target, bool overwrite) {
  std::error_code ignored;
  const InputPlace at{target.string(), 0, ""};
  if (target.extension() != ".html" && target.extension() != ".htm") {
    throw InputError(at, "a report's name ends in .html, so that a browser opens it.");
  }
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw InputError(at, "this is not a file that a report could replace; name another.");
  }
  if (fs::exists(target, ignored) && !overwrite) {
    throw InputError(at, "the file exists; name another, or add --overwrite to replace it.");
  }
  if (target.has_parent_path() && !fs::is_directory(target.parent_path(), ignored)) {
    throw InputError(at, "there is no such folder to write the report into.");
  }
}

fs::path default_target(const fs::path& place) {
  std::error_code ignored;
  return fs::is_directory(place, ignored) ? place / "report.html" : fs::path(place).replace_extension(".html");
}

int report(const po::variables_map& values) {
  if (values.count("folder") == 0) {
    throw InputError({}, "name the output of another verb, as in: epsim report out/quickstart -o report.html");
  }
  const fs::path place = values["folder"].as<std::string>();
  const fs::path target =
      values.count("output") > 0 ? fs::path(values["output"].as<std::string>()) : default_target(place);
  write_report(place, target, values["overwrite"].as<bool>());
  std::cout << fmt::format("report: {} (open it in a browser; it needs no network)\n", target.string());
  return 0;
}

}  // namespace

void write_report(const fs::path& place, const fs::path& target, bool overwrite) {
  const ReportInput input = read_report_input(place);
  check_target(target, overwrite);
  write_file_atomically(target, html_report(input, EPSIM_VERSION));
}

int report_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(),
                        "file for the report; default: report.html in the folder")("overwrite", po::bool_switch(),
                                                                                   "replace the file if it exists");
  const auto values = parse_words(
      words,
      "epsim report DIR [-o report.html] [options]\n\n"
      "Makes one HTML file of what run, compare, goodput, sweep or reproduce wrote to DIR, or of the file of a plan:\n"
      "charts, maps and tables with units and definitions. The file needs no network and no other file. What DIR does "
      "not hold is\n"
      "left out, and the report says so.\n",
      options, {"folder"});
  return values ? report(*values) : 0;
}

}  // namespace epsim::app
