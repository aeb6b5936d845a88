#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sim/core/config_json.h"
#include "sim/core/files.h"
#include "sim/python/bindings.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::python {
namespace {

std::string key_of(const std::string& assignment) { return assignment.substr(0, assignment.find('=')); }

// The resolved scenario, with a mark in place of a section that came from Python: a reader refuses it.
std::string with_own(std::string resolved, const std::string& name) {
  const std::string heading = '\n' + name + ':';
  const std::size_t from = resolved.find(heading);
  if (from == std::string::npos) {
    return resolved;
  }
  std::size_t to = resolved.find('\n', from + 1);
  while (to != std::string::npos && to + 1 < resolved.size() && resolved[to + 1] == ' ') {  // lines of the section
    to = resolved.find('\n', to + 1);
  }
  return resolved.replace(from, std::min(to, resolved.size()) - from, heading + " {kind: python}  # with_loads");
}

}  // namespace

Document::Document(const std::string& file, std::vector<std::string> assignments, bool check)
    : file_(std::filesystem::absolute(shipped_file(file)).lexically_normal().string()),
      assignments_(std::move(assignments)) {
  if (!std::filesystem::exists(file_)) {
    file_ = file;  // the message names what was given
  }
  if (check) {
    scenario();
  }
}

void Document::set(const std::vector<std::string>& assignments) {
  Document changed = *this;
  for (const std::string& assignment : assignments) {
    const std::string key = key_of(assignment);
    std::erase_if(changed.assignments_, [&](const std::string& earlier) { return key_of(earlier) == key; });
    changed.assignments_.push_back(assignment);
    changed.leave_own_loads(key);
  }
  changed.scenario_ = nullptr;
  changed.scenario();
  *this = std::move(changed);
}

// Loads that are set stand in for the function's.
void Document::leave_own_loads(const std::string& key) {
  for (const auto& [section, own] :
       {std::pair("loads", loads_ != nullptr), std::pair("plan_loads", plan_loads_.has_value())}) {
    if (own && key.starts_with(std::string(section) + '.')) {
      throw InputError({"", 0, key},
                       fmt::format("the loads come from with_loads(); to replace them, set `{}` as a whole.", section));
    }
  }
  if (key == "loads") {
    loads_ = nullptr;
  }
  if (key == "loads" || key == "plan_loads") {
    plan_loads_ = std::nullopt;
  }
}

void Document::use_loads(const py::function& function, const py::object& plan) {
  plan_loads_ = plan.is_none() ? std::nullopt : std::optional(window_of_array(plan, "plan"));
  loads_ = held(function);
  scenario_ = nullptr;
  scenario();
}

std::shared_ptr<const Scenario> Document::scenario() const {
  if (scenario_ == nullptr) {
    scenario_ = std::make_shared<const Scenario>(read({}));
  }
  return scenario_;
}

Scenario Document::read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed) const {
  Config config = Config::from_file(file_);
  for (const std::string& assignment : assignments_) {
    config.set(assignment, "set");
  }
  if (seed) {
    config.set("seed=" + std::to_string(*seed));
  }
  Scenario out = read_scenario(config, labels);
  if (loads_ != nullptr) {
    take_own_loads(out);
    out.resolved = with_own(out.resolved, "loads");
    if (plan_loads_) {
      out.resolved = with_own(out.resolved, "plan_loads");
    }
    for (PolicyChoice& policy : out.policies) {
      if (policy.system != nullptr) {
        Scenario system = *policy.system;
        take_own_loads(system);
        policy.system = std::make_shared<const Scenario>(std::move(system));
      }
    }
  }
  return out;
}

void bind_scenario(py::module_& m) {
  py::class_<Document>(m, "Document")
      .def(py::init<const std::string&, std::vector<std::string>, bool>(), py::arg("file"), py::arg("assignments"),
           py::arg("check"))
      .def("copy", [](const Document& d) { return Document(d); })
      .def("set", &Document::set, py::arg("assignments"))
      .def("use_loads", &Document::use_loads, py::arg("function"), py::arg("plan"))
      .def("file", &Document::file)
      .def("assignments", &Document::assignments)
      .def("has_own_loads", &Document::has_own_loads)
      .def("resolved", [](const Document& d) { return d.scenario()->resolved; })
      .def("json", [](const Document& d) { return yaml_to_json(d.scenario()->resolved, "resolved.yaml"); })
      .def("warnings", [](const Document& d) { return d.scenario()->warnings; });
}

}  // namespace epsim::python
