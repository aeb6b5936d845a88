#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "sim/core/config_json.h"
#include "sim/core/files.h"
#include "sim/python/bindings.h"
#include "sim/report/run_info.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::python {
namespace {

namespace fs = std::filesystem;

constexpr int kMostReads = 4;                        // of files that are written meanwhile
constexpr std::chrono::milliseconds kClockStep{10};  // more than a step of the time of change

std::string key_of(const std::string& assignment) { return assignment.substr(0, assignment.find('=')); }

Inputs::Stamp stamp_of(const fs::path& file) {
  std::error_code size_failed, time_failed;
  const auto size = fs::file_size(file, size_failed);
  const auto time = fs::last_write_time(file, time_failed);
  return size_failed || time_failed ? std::nullopt : Inputs::Stamp({size, time});
}

std::vector<Inputs::Stamp> stamps_of(const std::vector<fs::path>& files) {
  std::vector<Inputs::Stamp> out;
  std::transform(files.begin(), files.end(), std::back_inserter(out), stamp_of);
  return out;
}

// Reads until no file was written meanwhile: scenario and hashes are then of the same content.
template <class Read>
std::shared_ptr<const Inputs> settled(const std::string& file, const Read& read) {
  std::vector<Inputs::Stamp> last;
  for (int reads = 0; reads < kMostReads; ++reads) {
    const fs::file_time_type began = fs::file_time_type::clock::now() - kClockStep;
    auto out = std::make_shared<Inputs>(Inputs{read()});
    out->info = describe_inputs(out->by_seed.front(), EPSIM_VERSION);
    out->files = out->by_seed.front().input_files;
    out->files.emplace_back(file);
    out->stamps = stamps_of(out->files);
    const bool older = std::all_of(out->stamps.begin(), out->stamps.end(),
                                   [&](const Inputs::Stamp& stamp) { return stamp && stamp->second < began; });
    if (older || out->stamps == last) {
      return out;
    }
    last = std::exchange(out->stamps, {});
  }
  throw InputError({file, 0, ""}, "its files are written while they are read; wait until they are whole.");
}

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

std::string resolved_with(std::string resolved, bool own_loads, bool own_plan) {
  resolved = own_loads ? with_own(std::move(resolved), "loads") : std::move(resolved);
  return own_plan ? with_own(std::move(resolved), "plan_loads") : resolved;
}

}  // namespace

bool Inputs::stale() const {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Stamp now = stamp_of(files[i]);
    if (now && now != stamps[i]) {
      return true;
    }
  }
  return false;
}

Document::Document(const std::string& file, std::vector<std::string> assignments)
    : file_(fs::absolute(shipped_file(file)).lexically_normal().string()), assignments_(std::move(assignments)) {
  if (!fs::exists(file_)) {
    file_ = file;  // the message names what was given
  }
}

Document Document::with(const std::vector<std::string>& assignments) const {
  Document out = *this;
  out.kept_ = std::make_shared<Kept>();
  for (const std::string& assignment : assignments) {
    const std::string key = key_of(assignment);
    std::erase_if(out.assignments_, [&](const std::string& earlier) { return key_of(earlier) == key; });
    out.assignments_.push_back(assignment);
  }
  return out;
}

Document Document::with_loads(const py::function& function, const py::object& plan) const {
  Document out = *this;
  out.plan_loads_ = plan.is_none() ? std::nullopt : std::optional(window_of_array(plan, "plan"));
  out.loads_ = held(function);
  return out;
}

std::shared_ptr<const Inputs> Document::inputs() const {
  const auto kept = [&] {
    const std::lock_guard lock(kept_->mutex);
    return kept_->inputs;
  };
  std::shared_ptr<const Inputs> out = kept();
  if (out == nullptr || out->stale()) {
    Document files = *this;  // what is kept holds no function
    files.loads_ = nullptr;
    out = settled(file_, [&] { return std::vector{files.read({})}; });
    const std::lock_guard lock(kept_->mutex);
    kept_->inputs = out;
  }
  if (loads_ == nullptr) {
    return out;
  }
  auto own = std::make_shared<Inputs>(*out);
  take_own_loads_everywhere(own->by_seed.front());
  own->info.resolved_yaml = own->by_seed.front().resolved;
  return own;
}

std::shared_ptr<const Inputs> Document::inputs(const std::vector<std::string>& labels, int seeds) const {
  return labels.empty() && seeds == 1 ? inputs() : settled(file_, [&] {
    std::vector<Scenario> out{read(labels)};
    for (int s = 1; s < seeds; ++s) {
      out.push_back(read(labels, static_cast<std::int64_t>(out.front().seed) + s));
    }
    return out;
  });
}

Scenario Document::read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed) const {
  Config config = Config::from_file(file_);
  config.set(assignments_, "set");
  if (seed) {
    config.set("seed=" + std::to_string(*seed));
  }
  Scenario out = read_scenario(config, labels);
  if (loads_ != nullptr) {
    take_own_loads_everywhere(out);
  }
  return out;
}

// In the scenario, and in that of labels with sections of their own.
void Document::take_own_loads_everywhere(Scenario& scenario) const {
  take_own_loads(scenario);
  scenario.resolved = resolved_with(std::move(scenario.resolved), true, plan_loads_.has_value());
  for (PolicyChoice& policy : scenario.policies) {
    if (policy.system != nullptr) {
      Scenario system = *policy.system;
      take_own_loads(system);
      policy.system = std::make_shared<const Scenario>(std::move(system));
    }
  }
}

void bind_scenario(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  const auto resolved = [](const Inputs& i, bool own_loads, bool own_plan) {
    return resolved_with(i.by_seed.front().resolved, own_loads, own_plan);
  };
  py::class_<Inputs, std::shared_ptr<Inputs>>(m, "Inputs")
      .def("resolved", resolved, py::arg("own_loads"), py::arg("own_plan"))
      .def(
          "json",
          [resolved](const Inputs& i, bool own_loads, bool own_plan) {
            return yaml_as_json(resolved(i, own_loads, own_plan), "resolved.yaml").dump();
          },
          py::arg("own_loads"), py::arg("own_plan"))
      .def("warnings", [](const Inputs& i) { return i.by_seed.front().warnings; });
  py::class_<Document>(m, "Document")
      .def(py::init<const std::string&, std::vector<std::string>>(), py::arg("file"), py::arg("assignments"))
      .def("with_", &Document::with, py::arg("assignments"))
      .def("with_loads", &Document::with_loads, py::arg("function"), py::arg("plan"))
      .def(
          "inputs", [](const Document& d) { return std::const_pointer_cast<Inputs>(d.inputs()); }, Unlocked())
      .def("file", &Document::file)
      .def("assignments", &Document::assignments);
}

}  // namespace epsim::python
