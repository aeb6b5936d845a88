#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/python/bindings.h"
#include "sim/python/studies.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/html_report.h"
#include "sim/report/tables.h"
#include "sim/report/writer.h"

namespace epsim::python {
namespace {

constexpr const char* kMarkerFile = "resolved.yaml";  // as the program's --overwrite looks for

py::object figure(const RunSummary& run, const Metric& m) {
  if (m.is_text()) {
    return py::str(run.texts[m.index]);
  }
  const double value = run.numbers[m.index];
  if (std::isnan(value)) {
    return py::none();
  }
  switch (m.form) {
    case Form::kFlag:
      return py::bool_(value == 1);
    case Form::kCount:
    case Form::kIndex:
      return py::int_(static_cast<std::int64_t>(value));
    default:
      return py::float_(value);
  }
}

py::dict figures_of(const RunSummary& run) {
  py::dict out;
  for (const Metric& m : metrics()) {
    out[py::str(m.name)] = figure(run, m);
  }
  return out;
}

py::list metric_table() {
  py::list out;
  for (const Metric& m : metrics()) {
    const bool whole = m.form == Form::kCount || m.form == Form::kIndex;
    const char* type = m.is_text() ? "str" : m.form == Form::kFlag ? "bool" : whole ? "int" : "float";
    py::dict row;
    row["name"] = m.name;
    row["unit"] = m.unit;
    row["text"] = m.text;
    row["better"] = std::string(name_of(m.better));
    row["section"] = m.section;
    row["type"] = type;
    out.append(row);
  }
  return out;
}

static_assert(sizeof(Ticks) == sizeof(std::int64_t) && sizeof(Seconds) == sizeof(double));
static_assert(sizeof(PackedTicks) == sizeof(std::int64_t));

// -1 where a request was at none.
py::array ranks_of(const std::vector<RequestRecord>& rows) {
  py::array_t<std::int32_t> out(static_cast<py::ssize_t>(rows.size()));
  std::transform(rows.begin(), rows.end(), out.mutable_data(),
                 [](const RequestRecord& r) { return r.routed() ? std::int32_t{r.rank} : -1; });
  out.attr("flags").attr("writeable") = false;
  return out;
}

// Zeros, all of them the same one, where no request has any.
py::array extras_column(const Views& views, const RequestRecords& requests, std::int32_t RequestExtras::*field) {
  static constexpr std::int32_t kNone = 0;
  return requests.all_extras().empty() ? views.of<std::int32_t>({std::ssize(requests)}, {0}, &kNone)
                                       : views.column<std::int32_t>(requests.all_extras(), field);
}

py::dict requests_of(const std::shared_ptr<const RunResult>& run) {
  const Views views(run);
  const std::vector<RequestRecord>& rows = run->requests;
  using R = RequestRecord;
  py::dict out;
  out["dp_rank"] = ranks_of(rows);
  out["state"] = views.column<std::uint8_t>(rows, &R::state);
  out["input_tokens"] = views.column<std::int32_t>(rows, &R::input_tokens);
  out["output_tokens"] = views.column<std::int32_t>(rows, &R::output_tokens);
  out["cached_tokens"] = extras_column(views, run->requests, &RequestExtras::cached_tokens);
  out["arrival_ps"] = views.column<std::int64_t>(rows, &R::arrival);
  out["admitted_ps"] = views.column<std::int64_t>(rows, &R::admitted);
  out["first_token_ps"] = views.column<std::int64_t>(rows, &R::first_token);
  out["finished_ps"] = views.column<std::int64_t>(rows, &R::finished);
  out["retractions"] = extras_column(views, run->requests, &RequestExtras::retractions);
  out["retries"] = extras_column(views, run->requests, &RequestExtras::retries);
  return out;
}

py::dict series_of(const std::shared_ptr<const RunResult>& run) {
  const Views views(run);
  const std::vector<SeriesPoint>& rows = run->series.points;
  using P = SeriesPoint;
  py::dict out;
  out["start_s"] = views.column<double>(rows, &P::start);
  out["length_s"] = views.column<double>(rows, &P::length);
  out["running_requests"] = views.column<double>(rows, &P::running);
  out["queued_requests"] = views.column<double>(rows, &P::queued);
  out["kv_use_share"] = views.column<double>(rows, &P::kv_use);
  out["output_tokens"] = views.column<std::int64_t>(rows, &P::output_tokens);
  out["first_tokens"] = views.column<std::int64_t>(rows, &P::first_tokens);
  out["ttft_sum_s"] = views.column<double>(rows, &P::ttft_sum);
  return out;
}

py::array_t<double> balancedness_of(const LayerSeries& series) {
  py::array_t<double> out({series.columns(), series.layers()});
  for (int c = 0; c < series.columns(); ++c) {
    for (int l = 0; l < series.layers(); ++l) {
      *out.mutable_data(c, l) = series.mean(c, l);
    }
  }
  return out;
}

py::dict maps_of(const std::shared_ptr<const RunResult>& run) {
  const Views views(run);
  const StepTotals& totals = run->detail;
  const auto layers = static_cast<py::ssize_t>(totals.layers.size());
  const auto links = static_cast<py::ssize_t>(totals.links.size());
  py::dict out;
  out["gpu_assignments"] = views.table(totals.gpu_load, {layers, totals.gpus});
  out["gpu_expert_busy_s"] = views.table(totals.gpu_busy_s, {layers, totals.gpus});
  out["link_bound_s"] = views.table(totals.bottleneck_s, {layers, 2, links});
  out["balancedness"] = balancedness_of(totals.balancedness);
  return out;
}

py::list links_of(const RunResult& run) {
  py::list out;
  for (const LinkTotals& link : run.detail.links) {
    py::dict row;
    row["name"] = link.name;
    row["bytes"] = link.bytes.count();
    row["rate_bytes_per_s"] = link.rate.count();
    out.append(row);
  }
  return out;
}

py::list memory_of(const RunResult& run) {
  py::list out;
  for (const MemoryItem& item : run.memory.items) {
    out.append(py::make_tuple(item.name, item.size.count()));
  }
  return out;
}

// A folder of the program's layout; `write` fills it.
void save_folder(const std::string& target, bool overwrite,
                 const std::function<void(const std::filesystem::path&)>& write) {
  const py::gil_scoped_release unlock;
  OutputFolder folder(target, overwrite, kMarkerFile);
  write(folder.path());
  folder.commit();
}

std::string report_on(const std::string& name, const std::function<void(const std::filesystem::path&)>& write) {
  const py::gil_scoped_release unlock;
  const TemporaryFolder temporary("epsim-report-");
  const std::filesystem::path folder = temporary / name;  // the report's title
  std::filesystem::create_directories(folder);
  write(folder);
  return report_of(folder, EPSIM_VERSION);
}

void bind_run(py::module_& m) {
  const auto writer = [](const Run& run) {
    return [&run](const std::filesystem::path& folder) { write_run(folder, *run.result, run.summary, run.info); };
  };
  py::class_<Run>(m, "Run")
      .def_property_readonly("label", [](const Run& r) { return r.summary.label; })
      .def_property_readonly("scenario", [](const Run& r) { return r.info.scenario; })
      .def_property_readonly("seed", [](const Run& r) { return r.info.seed; })
      .def_property_readonly("warnings", [](const Run& r) { return r.result->warnings; })
      .def_property_readonly("carried_over", [](const Run& r) { return r.result->carried_over; })
      .def("figures", [](const Run& r) { return figures_of(r.summary); })
      .def("requests", [](const Run& r) { return requests_of(r.result); })
      .def("series", [](const Run& r) { return series_of(r.result); })
      .def("maps", [](const Run& r) { return maps_of(r.result); })
      .def("links", [](const Run& r) { return links_of(*r.result); })
      .def("memory", [](const Run& r) { return memory_of(*r.result); })
      .def("text", [](const Run& r) { return run_detail(r.summary); })
      .def("json", [](const Run& r) { return summary_json(r.summary, r.info); })
      .def("save", [writer](const Run& r, const std::string& to, bool over) { save_folder(to, over, writer(r)); })
      .def("report", [writer](const Run& r) { return report_on(r.info.scenario, writer(r)); });
}

void bind_comparison(py::module_& m) {
  const auto writer = [](const Compared& c) {
    return [&c](const std::filesystem::path& folder) {
      write_comparison_folder(folder, *c.first_seed, c.comparison, c.info);
    };
  };
  py::class_<Compared>(m, "Compared")
      .def_property_readonly("scenario", [](const Compared& c) { return c.info.scenario; })
      .def_property_readonly("seeds", [](const Compared& c) { return c.comparison.seeds; })
      .def("run", &Compared::run, py::arg("policy"))
      .def("labels", &Compared::labels)
      .def("figures", [](const Compared& c, std::size_t p,
                         std::size_t s) { return figures_of(c.comparison.by_policy.at(p).at(s)); })
      .def("text",
           [](const Compared& c) { return comparison_table(c.comparison) + "\n" + conclusion_text(c.comparison); })
      .def("conclusion", [](const Compared& c) { return conclusion_text(c.comparison); })
      .def("json", [](const Compared& c) { return comparison_json(c.comparison, c.info); })
      .def("save", [writer](const Compared& c, const std::string& to, bool over) { save_folder(to, over, writer(c)); })
      .def("report", [writer](const Compared& c) { return report_on(c.info.scenario, writer(c)); });
}

void bind_goodput_study(py::module_& m) {
  const auto writer = [](const SearchedGoodput& g) {
    return [&g](const std::filesystem::path& folder) { write_goodput(folder, g.study, g.info); };
  };
  py::class_<SearchedGoodput>(m, "SearchedGoodput")
      .def_property_readonly("scenario", [](const SearchedGoodput& g) { return g.info.scenario; })
      .def_property_readonly("seeds", [](const SearchedGoodput& g) { return g.study.seeds; })
      .def("labels", [](const SearchedGoodput& g) { return g.study.policies; })
      .def("tables",
           [](const SearchedGoodput& g) {
             return columns_of({goodput_table(g.study), curve_table(g.study)});
           })
      .def("text", [](const SearchedGoodput& g) { return goodput_tables(g.study); })
      .def("json", [](const SearchedGoodput& g) { return goodput_json(g.study, g.info); })
      .def("save",
           [writer](const SearchedGoodput& g, const std::string& to, bool over) { save_folder(to, over, writer(g)); })
      .def("report", [writer](const SearchedGoodput& g) { return report_on(g.info.scenario, writer(g)); });
}

}  // namespace

Views::Views(std::shared_ptr<const void> owner)
    : owner_(new std::shared_ptr<const void>(std::move(owner)),
             [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); }) {}

void bind_results(py::module_& m) {
  m.def("metric_table", &metric_table);
  bind_run(m);
  bind_comparison(m);
  bind_goodput_study(m);
}

}  // namespace epsim::python
