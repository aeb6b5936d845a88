#include <filesystem>
#include <utility>

#include "sim/core/config_json.h"
#include "sim/python/bindings.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::python {

Document::Document(const std::string& file, const std::vector<std::string>& assignments)
    : file_(std::filesystem::absolute(file).lexically_normal().string()) {
  if (!std::filesystem::exists(file_)) {
    file_ = file;  // the message names what was given
  }
  keep(assignments);
}

void Document::set(const std::vector<std::string>& assignments) {
  const auto key_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  std::vector<std::string> changed = assignments_;
  for (const std::string& assignment : assignments) {
    std::erase_if(changed, [&](const std::string& earlier) { return key_of(earlier) == key_of(assignment); });
    changed.push_back(assignment);
  }
  keep(std::move(changed));
}

Scenario Document::read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed) const {
  Config config = open(assignments_);
  if (seed) {
    config.set("seed=" + std::to_string(*seed));
  }
  return read_scenario(config, labels);
}

Config Document::open(const std::vector<std::string>& assignments) const {
  Config out = Config::from_file(file_);
  for (const std::string& assignment : assignments) {
    out.set(assignment, "set");
  }
  return out;
}

// Throws where the scenario cannot be read with them.
void Document::keep(std::vector<std::string> assignments) {
  const Scenario scenario = read_scenario(open(assignments), {});
  resolved_ = scenario.resolved;
  warnings_ = scenario.warnings;
  assignments_ = std::move(assignments);
}

void bind_scenario(py::module_& m) {
  py::class_<Document>(m, "Document")
      .def(py::init<const std::string&, const std::vector<std::string>&>(), py::arg("file"), py::arg("assignments"))
      .def("copy", [](const Document& d) { return Document(d); })
      .def("set", &Document::set, py::arg("assignments"))
      .def("resolved", &Document::resolved)
      .def("json", [](const Document& d) { return yaml_to_json(d.resolved(), "resolved.yaml"); })
      .def("warnings", &Document::warnings);
}

}  // namespace epsim::python
