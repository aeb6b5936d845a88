// `epsim report`: the output of another verb as one HTML file.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "models/catalogue.h"
#include "sim/app/command_line.h"
#include "sim/app/report_verb.h"
#include "sim/core/config.h"
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
  if (values.count("output") > 0 && values["output"].as<std::string>() == "-") {
    std::cout << html_report(read_report_input(place), EPSIM_VERSION);
    return 0;
  }
  const fs::path target =
      values.count("output") > 0 ? fs::path(values["output"].as<std::string>()) : default_target(place);
  write_report(place, target, values["overwrite"].as<bool>());
  std::cout << fmt::format("report: {} (open it in a browser; it needs no network)\n", target.string());
  return 0;
}

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

}  // namespace

void write_report(const fs::path& place, const fs::path& target, bool overwrite) {
  ReportInput input = read_report_input(place);
  input.nodes = nodes_of(input);
  check_target(target, overwrite);
  write_file_atomically(target, html_report(input, EPSIM_VERSION));
}

int report_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(),
                        "file for the report, - for standard output; default: report.html in the folder")(
      "overwrite", po::bool_switch(), "replace the file if it exists");
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
