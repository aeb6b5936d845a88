#include "sim/core/check.h"
#include "sim/python/bindings.h"
#include "sim/study/job_runner.h"

namespace epsim::python {
namespace {

// The exceptions are classes of errors.py.
py::object exception_class(const char* name) { return py::module_::import("epsim.errors").attr(name); }

// Messages may quote bytes of a file that are not text.
py::object text(const std::string& message) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
}

py::object input_error(const InputError& error) {
  py::list all;
  if (const auto* several = dynamic_cast<const InputErrors*>(&error)) {
    for (const InputError& one : several->all) {
      all.append(input_error(one));
    }
  }
  const auto or_none = [](const std::string& word) -> py::object { return word.empty() ? py::none() : text(word); };
  const py::object line = error.place.line > 0 ? py::object(py::int_(error.place.line)) : py::none();
  return exception_class("InputError")(text(error.what()), or_none(error.place.file), line, or_none(error.place.key),
                                       text(error.problem), all);
}

void raise(const py::object& exception) { PyErr_SetObject(py::type::of(exception).ptr(), exception.ptr()); }

void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const InputError& error) {
    raise(input_error(error));
  } catch (const StudyInterrupted&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  } catch (const RunFailed& error) {
    raise(exception_class("RunFailed")(text(error.what())));
  } catch (const InvariantBroken& error) {
    raise(exception_class("RunFailed")(
        text(std::string("a rule of the simulation itself was broken, which is a bug in epsim: ") + error.what())));
  }
}

}  // namespace
}  // namespace epsim::python

PYBIND11_MODULE(_native, m) {
  m.doc() = "The compiled part of epsim. Its names may change: use those of the package.";
  m.attr("version") = EPSIM_VERSION;
  pybind11::register_exception_translator(&epsim::python::translate);
  epsim::python::bind_scenario(m);
  epsim::python::bind_loads(m);
  epsim::python::bind_policies(m);
  epsim::python::bind_results(m);
  epsim::python::bind_studies(m);
  epsim::python::bind_folders(m);
  epsim::python::bind_plans(m);
  epsim::python::bind_diagnosis(m);
  epsim::python::bind_traces(m);
}
