#include "sim/report/folder_report.h"

#include <algorithm>

#include "models/catalogue/catalogue.h"
#include "sim/core/config.h"
#include "sim/report/html_report.h"

namespace epsim {
namespace {

// The nodes that scenarios name. One whose file is gone, or a scenario that cannot be read, is passed over: the report
// then names the node alone.
std::vector<ReportNode> nodes_of(const ReportInput& input) {
  std::vector<ReportNode> out;
  for (const ReportFile& file : input.files) {
    if (std::filesystem::path(file.path).filename() != "resolved.yaml") {
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

std::string report_of(const std::filesystem::path& place, const std::string& version) {
  ReportInput input = read_report_input(place);
  input.nodes = nodes_of(input);
  return html_report(input, version);
}

}  // namespace epsim
