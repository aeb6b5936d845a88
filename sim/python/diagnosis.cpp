// Should EPLB be on? Of recorded counts.
#include "sim/study/diagnosis.h"

#include "sim/core/refuse.h"
#include "sim/python/bindings.h"
#include "sim/report/diagnosis_report.h"
#include "sim/study/job_runner.h"
#include "sim/verbs/diagnosis_question.h"

namespace epsim::python {
namespace {

struct Diagnosed {
  std::string title;
  Diagnosis found;
  BalanceVerdict verdict;
};

Diagnosed diagnose_counts(const DiagnosisRequest& request, double worth, int threads) {
  refuse_if(!(worth >= 0 && worth < 100), "worth", "a gain in per cent from 0 to 100, as in 2.5.");
  Diagnosed out;
  in_background(threads, py::none(), [&](const Follow& follow) {
    DiagnosisQuestion question = read_question(request);
    out.title = question.title;
    RunControl control;
    control.stop = &follow.stop;
    out.found = diagnose(std::move(question.by_seed), question.counts.windows, question.planned, control);
    out.verdict = verdict_of(out.found, worth / 100);
  });
  return out;
}

}  // namespace

void bind_diagnosis(py::module_& m) {
  py::class_<Diagnosed>(m, "Diagnosed")
      .def("text", [](const Diagnosed& d) { return d.title + "\n\n" + diagnosis_lines(d.found, d.verdict); })
      .def("json", [](const Diagnosed& d) { return diagnosis_json(d.found, d.verdict); });
  m.def(
      "diagnose",
      [](const std::string& counts, const std::string& later, const std::string& counts_title,
         const std::string& later_title, const std::string& format, const std::string& scenario,
         const std::string& model, const std::string& node, std::optional<int> nodes,
         const std::vector<std::string>& overrides, int seeds, double worth, int threads) {
        return diagnose_counts(
            {counts, later, format, scenario, model, node, nodes, overrides, seeds, counts_title, later_title}, worth,
            threads);
      },
      py::arg("counts"), py::arg("later"), py::arg("counts_title"), py::arg("later_title"), py::arg("format"),
      py::arg("scenario"), py::arg("model"), py::arg("node"), py::arg("nodes"), py::arg("overrides"), py::arg("seeds"),
      py::arg("worth"), py::arg("threads"));
}

}  // namespace epsim::python
