#include "sim/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "models/catalogue/catalogue.h"
#include "sim/core/check.h"
#include "sim/core/config.h"
#include "sim/core/config_json.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/text.h"
#include "sim/domain/cost.h"
#include "sim/domain/step.h"
#include "sim/report/metric.h"

namespace epsim {

// Made by EpsimEmbed.cmake.
namespace embedded {
std::span<const std::pair<std::string_view, std::string_view>> report_page();
}

namespace {

using Json = nlohmann::ordered_json;

// The program's parts, in the order in which they build on each other.
constexpr std::array<std::string_view, 15> kScripts = {
    "base.js",    "tables.js", "paper.js",    "charts.js", "heatmap.js", "head.js", "series.js", "runs.js",
    "goodput.js", "sweep.js",  "capacity.js", "served.js", "claims.js",  "plan.js", "main.js"};

std::string_view embedded_file(std::string_view name) {
  for (const auto& [path, content] : embedded::report_page()) {
    if (path.substr(path.find_last_of('/') + 1) == name) {
      return content;
    }
  }
  EPSIM_CHECK(false, fmt::format("{} is embedded in the program", name));
}

std::string escaped_for_html(std::string_view text) {
  const std::string no_tags = replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), ">", "&gt;");
  return replaced(no_tags, "\"", "&quot;");
}

// JSON inside a script element: no "<" is left that could end the element or begin a comment.
std::string escaped_for_script(const std::string& json) { return replaced(json, "<", "\\u003c"); }

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Definitions are written with Markdown's backticks.
std::string plain(std::string text) {
  std::erase(text, '`');
  return text;
}

Json definitions_of_names() {
  Json out = Json::object();
  for (const Definition& d : definitions()) {
    out[d.name] = {{"unit", d.unit}, {"text", plain(d.text)}};
  }
  for (const Metric& m : metrics()) {
    out[m.name]["better"] = name_of(m.better);
    if (m.form == Form::kIndex) {
      out[m.name]["index"] = true;
    }
  }
  return out;
}

// The columns of the table of runs: [section of summary.json, name, label].
Json key_figures() {
  return mapped(page_figures(), [](const Metric* m) { return Json{m->section, m->name, m->key.label}; });
}

// Maps are drawn in colours: six digits of their numbers are enough, and they are most of a report's bytes.
std::string content_of(const ReportFile& file) {
  if (!file.path.ends_with("layer_gpu.csv") && !file.path.ends_with("layer_steps.csv")) {
    return file.content;
  }
  constexpr std::size_t kLong = 8;  // shorter fields stay: they are whole numbers or have no more digits
  std::string out;
  for (std::size_t at = 0; at < file.content.size();) {
    const std::size_t end = std::min(file.content.find_first_of(",\n", at), file.content.size());
    const std::string field = file.content.substr(at, end - at);
    double number = 0;
    const bool shorter =
        field.size() > kLong && std::from_chars(field.data(), field.data() + field.size(), number).ec == std::errc{};
    out += shorter ? fmt::format("{:.6g}", number) : field;
    out += end < file.content.size() ? file.content.substr(end, 1) : "";
    at = end + 1;
  }
  return out;
}

// What the first screen says of a scenario: `resolved.yaml` of each folder. One that is not of an output is not checked.
Json scenarios_of(const ReportInput& input) {
  Json out = Json::object();
  for (const ReportFile& file : input.files) {
    const std::filesystem::path path(file.path);
    if (path.filename() == "resolved.yaml") {
      try {
        out[path.parent_path().generic_string()] = yaml_as_json(file.content, file.path);
      } catch (const InputError&) {
        continue;
      }
    }
  }
  return out;
}

Json hardware_of(const ReportInput& input) {
  Json out = Json::object();
  for (const ReportNode& node : input.nodes) {
    out[node.name] = {{"gpu", node.gpu}, {"gpus", node.gpus}};
  }
  return out;
}

Json quantiles_of(const ReportInput& input) {
  Json out = Json::object();
  for (const RunQuantiles& run : input.quantiles) {
    for (const auto& [name, values] : run.latencies) {
      for (const double value : values) {  // drawn, not tabulated: five digits are enough
        out[run.folder][name].push_back(Json::parse(fmt::format("{:.5g}", value)));
      }
    }
  }
  return out;
}

Json data_of(const ReportInput& input, const std::string& version) {
  Json out;
  out["subtitle"] = fmt::format("Made by epsim {}. Hover or focus a dotted word for its definition.", version);
  out["title"] = input.title;
  out["files"] = Json::object();
  for (const ReportFile& file : input.files) {
    out["files"][file.path] = content_of(file);
  }
  out["scenarios"] = scenarios_of(input);
  out["hardware"] = hardware_of(input);
  out["quantiles"] = quantiles_of(input);
  out["plans"] = input.plans;
  out["left_out"] = input.left_out;
  out["layer_parts"] = kLayerPartNames;
  out["origins"] = kOriginNames;
  out["definitions"] = definitions_of_names();
  out["key_figures"] = key_figures();
  return out;
}

std::string scripts() {
  std::string out;
  for (const std::string_view name : kScripts) {
    out += fmt::format("// {}\n{}\n", name, embedded_file(name));
  }
  return out;
}

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

std::string html_report(const ReportInput& input, const std::string& version) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"title", escaped_for_html(Json::parse(dump(input.title)).get<std::string>())},
      {"style", std::string(embedded_file("style.css"))},
      {"chart", std::string(embedded_file("d3.min.js"))},
      {"script", scripts()},
      {"data", escaped_for_script(dump(data_of(input, version)))}};
  const std::string_view page = embedded_file("page.html");
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = page.find("{{", at), close = page.find("}}", open);
    out += page.substr(at, open - at);
    if (open == std::string_view::npos) {
      break;
    }
    for (const auto& [name, text] : parts) {
      out += name == page.substr(open + 2, close - open - 2) ? text : "";
    }
    at = close + 2;
  }
  return out;
}

std::string report_of(const std::filesystem::path& place, const std::string& version) {
  ReportInput input = read_report_input(place);
  input.nodes = nodes_of(input);
  return html_report(input, version);
}

}  // namespace epsim
