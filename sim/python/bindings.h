// The compiled part of the Python package, epsim._native: the library's values and functions under the names that the
// package's Python files give to users. No study is computed here.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/run_result.h"
#include "sim/core/config.h"
#include "sim/report/comparison.h"
#include "sim/report/json.h"
#include "sim/scenario/scenario.h"

namespace epsim::python {

namespace py = pybind11;

// How far a study is; set by its threads.
struct Tally {
  std::atomic<std::int64_t> done{0}, all{0};
};

// What a study gets of its caller.
struct Follow {
  const std::atomic<bool>& stop;
  Tally& tally;
};

// Runs `work` on a thread of its own, on `threads` threads of oneTBB (0: all cores), while this one waits without the
// interpreter's lock: other Python threads go on. Every 50 ms it looks for Ctrl-C, which sets `stop` and is raised once
// the work has ended, and calls `progress(done, all)` unless that is None. Throws what `work` throws.
void in_background(int threads, const py::object& progress, const std::function<void(const Follow&)>& work);

// A scenario's file and what is set beside it. The file is read again each time, as the program does, so that messages
// name its lines.
class Document {
 public:
  Document(const std::string& file, const std::vector<std::string>& assignments);
  // "a.b=c", as --set takes it; refused, with nothing changed, where the scenario would not be read any more.
  void set(const std::vector<std::string>& assignments);
  // `labels`: the policies, none for the scenario's own; `seed`: another than the document's.
  Scenario read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed = {}) const;
  const std::string& resolved() const { return resolved_; }  // with every default, as YAML
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Config open(const std::vector<std::string>& assignments) const;
  void keep(std::vector<std::string> assignments);
  std::string file_;
  std::vector<std::string> assignments_;
  std::string resolved_;
  std::vector<std::string> warnings_;
};

// A policy that is a Python function; Scenario::policies takes it like any other.
PolicyChoice python_policy(const std::string& label, const py::function& function);

// One run, with what its files say of its inputs.
struct Run {
  std::shared_ptr<const RunResult> result;
  RunSummary summary;
  RunInfo info;
};

void bind_policies(py::module_& m);
void bind_results(py::module_& m);
void bind_scenario(py::module_& m);
void bind_studies(py::module_& m);

}  // namespace epsim::python
