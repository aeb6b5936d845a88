// The compiled part of the Python package, epsim._native: the library's values and functions under the names that the
// package's Python files give to users. No study is computed here.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/run_result.h"
#include "sim/core/config.h"
#include "sim/report/comparison.h"
#include "sim/report/json.h"
#include "sim/report/sweep_table.h"
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

// What to say of an exception of `whose` function: its text alone, as exceptions must not go through threads without the
// interpreter. Ctrl-C throws StudyInterrupted, which becomes KeyboardInterrupt again.
std::string raised(const char* whose, const py::error_already_set& error);

// A Python value that any thread may release.
std::shared_ptr<py::object> held(const py::object& value);

// What a study's runs depend on: the scenario under each of its seeds, all read from one state of the files.
struct Inputs {
  // Size and time of change of a file; nothing where it cannot be found.
  using Stamp = std::optional<std::pair<std::uintmax_t, std::filesystem::file_time_type>>;

  std::vector<Scenario> by_seed;
  RunInfo info = {};  // of the first, with the hashes of what was read
  std::vector<std::filesystem::path> files = {};
  std::vector<Stamp> stamps = {};

  // Whether a file was written since. One that is gone counts as unchanged: the scenario is read already.
  bool stale() const;
};

// A scenario's file and what is set beside it; never changes. All but the constructor and with_loads() may be called
// without the interpreter's lock.
class Document {
 public:
  Document(const std::string& file, std::vector<std::string> assignments);
  // With "a.b=c", as --set takes it, in place of earlier ones of these keys.
  Document with(const std::vector<std::string>& assignments) const;
  // Every run takes its loads from `function`, policies plan from `plan` unless that is None. For one study: Python's
  // collector does not see what it holds.
  Document with_loads(const py::function& function, const py::object& plan) const;
  // The scenario under its own policy; kept, and read again where a file has changed.
  std::shared_ptr<const Inputs> inputs() const;
  // Under each of `seeds` seeds from its own on. `labels`: the policies, none for the scenario's own. The file is read
  // again, so that messages name its lines.
  std::shared_ptr<const Inputs> inputs(const std::vector<std::string>& labels, int seeds) const;
  Scenario read(const std::vector<std::string>& labels, std::optional<std::int64_t> seed = {}) const;
  const std::string& file() const { return file_; }
  const std::vector<std::string>& assignments() const { return assignments_; }
  bool has_own_loads() const { return loads_ != nullptr; }

 private:
  struct Kept {
    std::mutex mutex;
    std::shared_ptr<const Inputs> inputs;
  };

  void take_own_loads(Scenario& scenario) const;
  void take_own_loads_everywhere(Scenario& scenario) const;
  std::string file_;
  std::vector<std::string> assignments_;
  std::shared_ptr<py::object> loads_;  // null: those of the file
  std::optional<LoadWindow> plan_loads_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

// A policy of a study: a label of the scenario, a built-in policy, or a Python function under a name.
struct PolicyGiven {
  std::string label;
  py::object function;  // None: no function
  py::object per_step;  // of a function that acts in every step: its options as a dict; else None
  bool is_python() const { return !function.is_none(); }
};
// As policies.given() of the package has them.
std::vector<PolicyGiven> policies_given(const py::list& policies);
// A function as a policy; Scenario::policies takes it like any other.
PolicyChoice python_policy(const PolicyGiven& given);
PolicyChoice step_policy_choice(const PolicyGiven& given);
std::shared_ptr<const PlacementPolicy> python_placement(const std::string& label, const py::object& function);
// The labels that the scenario's file has to be read with.
std::vector<std::string> labels_of(const std::vector<PolicyGiven>& given);
// The scenario's policies are those of the file, in their order among `given`; the functions take their places.
void add_python_policies(Scenario& scenario, const std::vector<PolicyGiven>& given);
// The document's inputs with these policies. Without the interpreter's lock.
Inputs inputs_with(const Document& document, const std::vector<PolicyGiven>& given, int seeds = 1);

// A window [MoE layers, experts] of an array. Throws InputError that names `key`.
LoadWindow window_of_array(const py::object& array, const std::string& key);
// Where a run's loads come from a function. It is not called before the first draw.
std::shared_ptr<const ExpertLoadSource> function_loads(const std::shared_ptr<py::object>& function,
                                                       const Scenario& scenario);

// Views of memory that `owner` keeps: read only.
class Views {
 public:
  explicit Views(std::shared_ptr<const void> owner);
  template <class Value>
  py::array of(std::vector<py::ssize_t> shape, std::vector<py::ssize_t> strides, const Value* first) const {
    py::array out(py::dtype::of<Value>(), std::move(shape), std::move(strides), first, owner_);
    out.attr("flags").attr("writeable") = false;
    return out;
  }
  // One field of each row.
  template <class Value, class Row, class Field>
  py::array column(const std::vector<Row>& rows, Field Row::*field) const {
    const Value* first = rows.empty() ? nullptr : reinterpret_cast<const Value*>(&(rows.front().*field));
    return of<Value>({static_cast<py::ssize_t>(rows.size())}, {static_cast<py::ssize_t>(sizeof(Row))}, first);
  }
  template <class Value>
  py::array table(const std::vector<Value>& values, std::vector<py::ssize_t> shape) const {
    std::vector<py::ssize_t> strides(shape.size(), sizeof(Value));
    for (std::size_t i = shape.size(); i-- > 1;) {
      strides[i - 1] = strides[i] * shape[i];
    }
    py::ssize_t all = 1;
    for (const py::ssize_t n : shape) {
      all *= n;
    }
    if (all != static_cast<py::ssize_t>(values.size())) {  // a run without steps, say
      shape[0] = 0;
    }
    return of<Value>(std::move(shape), std::move(strides), values.data());
  }

 private:
  py::capsule owner_;
};

// Tables by name, each a dict of columns: float64 arrays, not a number where a cell is empty, or lists of text.
py::dict columns_of(const std::vector<ResultTable>& tables);

// One run, with what its files say of its inputs.
struct Run {
  std::shared_ptr<const RunResult> result;
  RunSummary summary;
  RunInfo info;
};

void bind_diagnosis(py::module_& m);
void bind_folders(py::module_& m);
void bind_loads(py::module_& m);
void bind_plans(py::module_& m);
void bind_policies(py::module_& m);
void bind_results(py::module_& m);
void bind_scenario(py::module_& m);
void bind_studies(py::module_& m);
void bind_traces(py::module_& m);

}  // namespace epsim::python
