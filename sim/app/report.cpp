// `epsim report`: the output of another verb as one HTML file.
#include <algorithm>
#include <iostream>

#include "models/catalogue/catalogue.h"
#include "sim/app/command_line.h"
#include "sim/app/report_verb.h"
#include "sim/core/config.h"
#include "sim/report/html_report.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

// The nodes that scenarios name. One whose file is gone, or a scenario that cannot be read, is passed over: the report
// then names the node alone.
std::vector<ReportNode> nodes_of(const ReportInput& input) {
  std::vector<ReportNode> out;
  for (const ReportFile& file : input.files) {
    if (fs::path(file.path).filename() != "resolved.yaml") {
      continue;
    }
    try {
      const auto name = Config::from_text(file.content, file.path).root().section("cluster").maybe<std::string>("node");
      if (name && std::none_of(out.begin(), out.end(), [&](const ReportNode& node) { return node.name == *name; })) {
        const NodeSpec node = find_node(*name).spec;
        out.push_back({*name, node.gpu.name, node.gpus});
      }
    } catch (const InputError&) {
      continue;
    }
  }
  return out;
}

fs::path default_target(const fs::path& place) {
  std::error_code ignored;
  return fs::is_directory(place, ignored) ? place / "report.html" : fs::path(place).replace_extension(".html");
}

void check_name(const fs::path& target) {
  if (target.extension() != ".html" && target.extension() != ".htm") {
    throw InputError({target.string(), 0, ""}, "a report's name ends in .html, so that a browser opens it.");
  }
}

int report(const po::variables_map& values) {
  if (values.count("folder") == 0) {
    throw InputError({}, "name the output of another verb, as in: epsim report out/quickstart -o report.html");
  }
  const fs::path place = values["folder"].as<std::string>();
  const std::string html = report_of(place);
  const FileOutput out(values, default_target(place).string());
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

std::string report_of(const fs::path& place) {
  ReportInput input = read_report_input(place);
  input.nodes = nodes_of(input);
  return html_report(input, EPSIM_VERSION);
}

int report_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_file_output(options, "file for the report, - for standard output; default: report.html in the folder");
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
