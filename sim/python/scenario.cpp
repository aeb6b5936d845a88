#include <filesystem>
#include <utility>

#include "sim/core/config_json.h"
#include "sim/core/files.h"
#include "sim/python/bindings.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::python {

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
  const auto key_of = [](const std::string& text) { return text.substr(0, text.find('=')); };
  std::vector<std::string> changed = assignments_;
  for (const std::string& assignment : assignments) {
    std::erase_if(changed, [&](const std::string& earlier) { return key_of(earlier) == key_of(assignment); });
    changed.push_back(assignment);
  }
  scenario_ = std::make_shared<const Scenario>(read(changed, {}, {}));
  assignments_ = std::move(changed);
}

void Document::use_loads(const py::function& function, const py::object& plan) {
  plan_loads_ = plan.is_none() ? std::nullopt : std::optional(window_of_array(plan, "plan"));
  loads_ = held(function);
  scenario_ = nullptr;
  scenario();
}

std::shared_ptr<const Scenario> Document::scenario() const {
  if (scenario_ == nullptr) {
    scenario_ = std::make_shared<const Scenario>(read(assignments_, {}, {}));
  }
  return scenario_;
}

Scenario Document::read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed) const {
  return read(assignments_, labels, seed);
}

Scenario Document::read(const std::vector<std::string>& assignments, const std::vector<std::string>& labels,
                        std::optional<std::int64_t> seed) const {
  Config config = Config::from_file(file_);
  for (const std::string& assignment : assignments) {
    config.set(assignment, "set");
  }
  if (seed) {
    config.set("seed=" + std::to_string(*seed));
  }
  Scenario out = read_scenario(config, labels);
  if (loads_ != nullptr) {
    take_own_loads(out);
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
