// Studies that keep finished work in a folder: sweeps, capacity, papers.
#include <filesystem>
#include <functional>

#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/python/bindings.h"
#include "sim/report/capacity_report.h"
#include "sim/report/capacity_words.h"
#include "sim/report/html_report.h"
#include "sim/reproduce/reproduction.h"
#include "sim/study/goodput.h"
#include "sim/verbs/capacity_folder.h"
#include "sim/verbs/capacity_request.h"
#include "sim/verbs/sweep_report.h"

namespace epsim::python {
namespace {

namespace fs = std::filesystem;

// A finished study of this kind: its folder, and what the program prints of it.
struct FolderStudy {
  std::shared_ptr<const TemporaryFolder> temporary;  // where the caller named no folder
  fs::path folder;
  std::string marker;  // the file by which a folder is known as one of these
  std::string text, json;
  std::vector<ResultTable> tables = {};

  FolderStudy(const std::string& named, const std::string& name, std::string marker_file)
      : marker(std::move(marker_file)) {
    if (named.empty()) {
      temporary = std::make_shared<const TemporaryFolder>("epsim-study-");
    }
    folder = named.empty() ? *temporary / name : fs::path(named);
  }
};

void save_study(const FolderStudy& study, const std::string& target, bool overwrite) {
  const py::gil_scoped_release unlock;
  OutputFolder out(target, overwrite, study.marker);
  fs::copy(study.folder, out.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  out.commit();
}

// Columns by name: float64 arrays, not a number where a cell is empty, or lists of text.
py::dict table_of(const ResultTable& table) {
  py::dict out;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const auto rows = static_cast<py::ssize_t>(table.rows.size());
    py::list texts;
    py::array_t<double> numbers(rows);
    for (py::ssize_t r = 0; r < rows; ++r) {
      const Cell& cell = table.rows[static_cast<std::size_t>(r)][c];
      table.columns[c].text ? texts.append(text_of(cell)) : void(*numbers.mutable_data(r) = number_of(cell));
    }
    out[py::str(table.columns[c].name)] = table.columns[c].text ? py::object(texts) : py::object(numbers);
  }
  return out;
}

// Axes as --vary takes them, values apart.
std::vector<SweepAxis> axes_of(const py::list& vary) {
  std::vector<SweepAxis> out;
  for (const py::handle& item : vary) {
    const auto [key, values] = item.cast<std::pair<std::string, std::vector<std::string>>>();
    SweepAxis& axis = out.emplace_back(SweepAxis{key, {}});
    for (const std::string& value : values) {
      refuse_if(value.empty() || std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end(), key,
                value.empty() ? "a value is empty." : "the value " + value + " is given twice.");
      axis.values.push_back(value);
    }
    refuse_if(axis.values.empty(), key, "there are no values to take.");
  }
  refuse_if(out.empty(), "vary", "name what varies, as in {\"requests.rate\": [\"4/s\", \"8/s\"]}.");
  return out;
}

// Whether an axis sets what is assigned, or all of the section that it is in.
bool varied(const std::string& assignment, const std::vector<SweepAxis>& axes) {
  const std::string key = assignment.substr(0, assignment.find('='));
  return std::any_of(axes.begin(), axes.end(),
                     [&](const SweepAxis& axis) { return key == axis.key || key.starts_with(axis.key + '.'); });
}

FolderStudy run_sweep_study(const Document& document, const py::list& vary, const py::list& policies,
                            const std::string& measure, const std::string& slo, double tolerance, bool only_listed,
                            const std::string& folder, bool overwrite, bool retry_failed, int threads,
                            const py::object& progress) {
  SweepRequest request;
  request.scenario = document.file();
  request.axes = axes_of(vary);
  const std::vector<std::string>& assigned = document.assignments();
  std::copy_if(assigned.begin(), assigned.end(), std::back_inserter(request.overrides),
               [&](const std::string& assignment) { return !varied(assignment, request.axes); });
  for (const PolicyGiven& policy : policies_given(policies)) {
    request.policies.push_back(policy.label);
    if (policy.is_python()) {
      request.own_policies.emplace(policy.label, python_policy(policy));
    }
  }
  refuse_if(
      !request.own_policies.empty() && !folder.empty(), "folder",
      "points of a function cannot be recognised later, so none are kept: leave `folder` out, and save() the result.");
  refuse_if(document.has_own_loads(), "loads",
            "a sweep reads the scenario's file again for each point, and its `loads`.");
  refuse_if(measure != "run" && measure != "goodput", "measure", unknown_name("measure", measure, {"run", "goodput"}));
  request.measure = measure == "run" ? SweepMeasure::kRun : SweepMeasure::kGoodput;
  request.goodput.tolerance = tolerance;
  if (!slo.empty()) {
    request.goodput.slo = parse_slo(slo);
  }
  validate(request.goodput);
  FolderStudy out(folder, request.scenario.stem().string() + "-sweep", "sweep.json");
  in_background(threads, progress, [&](const Follow& follow) {
    if (!only_listed) {
      add_compared(request, false);
    }
    SweepControl control;
    control.overwrite = overwrite;
    control.retry_failed = retry_failed;
    control.stop = &follow.stop;
    control.on_start = [&](std::size_t to_run, std::size_t) { follow.tally.all = static_cast<std::int64_t>(to_run); };
    control.on_point = [&] { ++follow.tally.done; };
    const SweepOutcome done = run_sweep(request, out.folder, control);
    if (done.interrupted) {
      throw StudyInterrupted();
    }
    out.text = sweep_text(request, done) + (done.failed > 0 ? failures_text(done) : "");
    out.json = sweep_json(request, done);
    out.tables = done.tables;
  });
  return out;
}

FolderStudy run_capacity(const CapacityWords& words, const std::string& file, const std::string& folder, bool overwrite,
                         int threads, const py::object& progress) {
  FolderStudy out(folder, file.empty() ? "capacity" : fs::path(file).stem().string() + "-capacity",
                  kCapacityStore.manifest);
  in_background(threads, progress, [&](const Follow& follow) {
    const CapacityRequest request = read_capacity_request(
        words, file.empty() ? std::nullopt : std::optional(Config::from_file(shipped_file(file))));
    follow.tally.all = static_cast<std::int64_t>(request.question.layouts.size() * request.question.policies.size());
    const JobStore store(out.folder, kCapacityStore, capacity_manifest(request), overwrite);
    CapacityControl control{&follow.stop, &store};
    control.on_settled = [&] { ++follow.tally.done; };
    const CapacityPlan plan = plan_capacity(request, control);
    write_capacity(store.path(), plan, request.question);
    out.text = capacity_text(plan);
    out.json = capacity_json(plan, EPSIM_VERSION);
    out.tables = {candidates_table(plan), deployments_table(plan), prices_table(plan), what_ifs_table(plan)};
  });
  return out;
}

FolderStudy run_reproduction(const std::string& paper, const std::optional<std::vector<std::string>>& only,
                             std::optional<int> seeds, const std::vector<std::string>& overrides, bool quick,
                             bool sensitivity, const std::string& folder, bool overwrite, int threads,
                             const py::object& progress) {
  const ReproductionRequest request{paper, only, seeds, overrides, quick, sensitivity, overwrite};
  const PaperStudy study = read_paper_study(claims_file(paper));
  FolderStudy out(folder, study.name, "reproduce.json");
  in_background(threads, progress, [&](const Follow& follow) {
    const OnSetup on_setup = [&](const std::string&, std::size_t done, std::size_t all) {
      follow.tally.done = static_cast<std::int64_t>(done);
      follow.tally.all = static_cast<std::int64_t>(all);
    };
    const Reproduction done = reproduce(study, request, out.folder, {&follow.stop, on_setup});
    out.text = reproduction_text(done);
    out.json = read_file(out.folder / "claims.json");
  });
  return out;
}

}  // namespace

py::dict columns_of(const std::vector<ResultTable>& tables) {
  py::dict out;
  for (const ResultTable& table : tables) {
    out[py::str(table.name)] = table_of(table);
  }
  return out;
}

void bind_folders(py::module_& m) {
  py::class_<FolderStudy>(m, "FolderStudy")
      .def_property_readonly("folder", [](const FolderStudy& s) { return s.folder.string(); })
      .def_property_readonly(
          "temporary", [](const FolderStudy& s) { return s.temporary ? s.temporary->path().string() : std::string(); })
      .def("text", [](const FolderStudy& s) { return s.text; })
      .def("json", [](const FolderStudy& s) { return s.json; })
      .def("tables", [](const FolderStudy& s) { return columns_of(s.tables); })
      .def("save", &save_study)
      .def("report", [](const FolderStudy& s) { return report_of(s.folder, EPSIM_VERSION); });
  m.def("sweep", &run_sweep_study, py::arg("document"), py::arg("vary"), py::arg("policies"), py::arg("measure"),
        py::arg("slo"), py::arg("tolerance"), py::arg("only_listed"), py::arg("folder"), py::arg("overwrite"),
        py::arg("retry_failed"), py::arg("threads"), py::arg("progress"));
  m.def("capacity", &run_capacity, py::arg("words"), py::arg("file"), py::arg("folder"), py::arg("overwrite"),
        py::arg("threads"), py::arg("progress"));
  m.def("reproduce", &run_reproduction, py::arg("paper"), py::arg("only"), py::arg("seeds"), py::arg("overrides"),
        py::arg("quick"), py::arg("sensitivity"), py::arg("folder"), py::arg("overwrite"), py::arg("threads"),
        py::arg("progress"));
}

}  // namespace epsim::python
