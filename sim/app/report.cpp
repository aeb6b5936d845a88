// `epsim report`: the output of another verb as one HTML file.
#include <iostream>

#include "sim/app/command_line.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/html_report.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

fs::path default_target(const fs::path& place) {
  std::error_code ignored;
  return fs::is_directory(place, ignored) ? place / "report.html" : fs::path(place).replace_extension(".html");
}

void check_name(const fs::path& target) {
  refuse_if(target.extension() != ".html" && target.extension() != ".htm", {target.string(), 0, ""},
            "a report's name ends in .html, so that a browser opens it.");
}

int report(const po::variables_map& values) {
  refuse_if(values.count("folder") == 0, "",
            "name the output of another verb, as in: epsim report out/quickstart -o report.html");
  const fs::path named = values["folder"].as<std::string>(), place = shipped_file(named.string());
  const std::string html = report_of(place, EPSIM_VERSION);
  // Not among the installed files: beside them the user may not write.
  const FileOutput out(values, default_target(place == named ? place : place.filename()).string());
  if (!out.to_standard_output()) {
    check_name(out.path());
  }
  out.write(html, "report");
  if (!out.to_standard_output()) {
    std::cout << "open it in a browser; it needs no network\n";
  }
  return 0;
}

}  // namespace

int report_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "file for the report, - for standard output; default: report.html in the folder");
  const auto values = parse_words(
      words,
      "epsim report DIR [-o report.html] [options]\n\n"
      "Makes one HTML file of what run, compare, goodput, capacity, sweep, reproduce or validate --served wrote to\n"
      "DIR and the folders in it, or of the file of a plan: charts, maps and tables with units and definitions. The\n"
      "file needs no network and no other file. What DIR does not hold is left out, and the report says so.\n",
      options, {"folder"});
  return report(values);
}

}  // namespace epsim::app
