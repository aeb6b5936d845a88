// Expert traces: read, fitted, generated.
#include <algorithm>
#include <filesystem>

#include "sim/core/choice.h"
#include "sim/core/refuse.h"
#include "sim/python/bindings.h"
#include "traces/commands/trace_commands.h"
#include "traces/export/exporter.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/routing_model.h"

namespace epsim::python {
namespace {

namespace fs = std::filesystem;

// A trace file, in the caller's place or a temporary one, and its arrays once they were asked for.
struct Trace {
  std::shared_ptr<const TemporaryFolder> temporary = {};
  std::optional<OpenedTrace> opened = {};
  fs::path path;
  std::shared_ptr<TraceFile> file;
  std::vector<double> loads = {};
  std::vector<std::int64_t> tokens = {};
  TraceFile::Tokens choices = {};

  void open(const fs::path& from) {
    path = from;
    file = std::make_shared<TraceFile>(from);
  }
  bool is_temporary() const { return temporary != nullptr || (opened && opened->imported()); }
};

ImportOptions import_options(const py::dict& given) {
  ImportOptions out;
  out.model = given["model"].cast<std::string>();
  out.source = given["source"].cast<std::string>();
  out.licence = given["licence"].cast<std::string>();
  out.sequences = given["sequences"].cast<std::string>();
  out.model_layers = given["model_layers"].cast<int>();
  out.experts = given["experts"].cast<int>();
  out.top_k = given["top_k"].cast<int>();
  out.layers = given["layers"].cast<int>();
  out.layer_numbers = given["layer_numbers"].cast<std::vector<int>>();
  return out;
}

std::shared_ptr<Trace> read_trace(const std::string& file, const std::string& format, const py::dict& options) {
  const ImportOptions import = import_options(options);
  const py::gil_scoped_release unlock;
  auto out = std::make_shared<Trace>();
  out->opened.emplace(file, format, import);
  out->open(out->opened->path());
  return out;
}

std::shared_ptr<Trace> generate(const std::string& model, std::optional<std::int64_t> rows,
                                std::optional<std::int64_t> tokens, int sources, std::int64_t tokens_per_row,
                                std::uint64_t seed) {
  const py::gil_scoped_release unlock;
  auto out = std::make_shared<Trace>();
  out->temporary = std::make_shared<const TemporaryFolder>("epsim-trace-");
  const fs::path file = *out->temporary / "trace.h5";
  trace_generate({model, rows, tokens, sources, tokens_per_row, Seed{seed}}, file);
  out->open(file);
  return out;
}

std::shared_ptr<Trace> slice(const Trace& from, const TraceSlice& what) {
  const py::gil_scoped_release unlock;
  auto out = std::make_shared<Trace>();
  out->temporary = std::make_shared<const TemporaryFolder>("epsim-trace-");
  const fs::path file = *out->temporary / "trace.h5";
  trace_slice(from.path, what, file);
  out->open(file);
  return out;
}

struct ComparedTraces {
  TraceProfile a, b;
  ProfileComparison rows;
};

ComparedTraces compare_traces(const Trace& a, const Trace& b) {
  const py::gil_scoped_release unlock;
  ComparedTraces out{trace_profile(a.path), trace_profile(b.path), {}};
  out.rows = compare(out.a, out.b);
  return out;
}

py::array trace_loads(const std::shared_ptr<Trace>& t) {
  const TraceFile& file = *t->file;
  if (t->loads.empty() && file.load_rows() > 0) {
    t->loads.resize(static_cast<std::size_t>(file.load_rows()) * file.load_row_size());
    t->tokens.resize(static_cast<std::size_t>(file.load_rows() * file.sources()));
    file.read_loads<double>(0, file.load_rows(), t->loads, t->tokens);
  }
  return Views(t).table(t->loads, {file.load_rows(), file.info().layers(), file.sources(), file.info().experts});
}

py::array trace_tokens(const std::shared_ptr<Trace>& t) {
  trace_loads(t);
  return Views(t).table(t->tokens, {t->file->load_rows(), t->file->sources()});
}

const TraceFile::Tokens& choices_of(Trace& t) {
  if (t.choices.experts.empty() && t.file->token_count() > 0) {
    t.file->read_tokens(0, t.file->token_count(), t.choices);
  }
  return t.choices;
}

py::dict info_of(const Trace& t) {
  const TraceInfo& info = t.file->info();
  py::dict out;
  out["model"] = info.model;
  out["model_layers"] = info.model_layers;
  out["layer_numbers"] = info.layer_numbers;
  out["experts"] = info.experts;
  out["top_k"] = info.top_k;
  out["shared_experts"] = info.shared_experts;
  out["source"] = info.source;
  out["licence"] = info.licence;
  out["recipe"] = info.recipe;
  return out;
}

void check_format(const std::string& format) {
  std::vector<std::string> known{"epsim"};
  for (const TraceExporter& exporter : trace_exporters()) {
    known.emplace_back(exporter.name);
  }
  refuse_if(std::find(known.begin(), known.end(), format) == known.end(), "format",
            unknown_name("format", format, known));
}

// In our format, or as a file of another program's.
void save(const Trace& t, const std::string& to, const std::string& format, bool overwrite) {
  const py::gil_scoped_release unlock;
  check_format(format);
  refuse_if(fs::exists(to) && !overwrite, {to, 0, ""}, "the file exists; name another, or pass overwrite=True.");
  const fs::path folder = fs::absolute(to).parent_path();
  refuse_if(!fs::is_directory(folder), {to, 0, ""},
            "there is no folder " + folder.string() + " to write to; make it first.");
  if (format != "epsim") {
    return trace_convert(t.path, format, to);
  }
  TraceFileWriter writer(to);
  t.file->copy_to(writer);
  if (t.file->has_requests()) {
    writer.requests(t.file->requests());
  }
  writer.commit();
}

}  // namespace

void bind_traces(py::module_& m) {
  py::class_<Trace, std::shared_ptr<Trace>>(m, "Trace")
      .def_property_readonly("path", [](const Trace& t) { return t.path.string(); })
      .def_property_readonly("temporary",
                             [](const Trace& t) { return t.is_temporary() ? t.path.parent_path().string() : ""; })
      .def("info", &info_of)
      .def("loads", &trace_loads)
      .def("tokens", &trace_tokens)
      .def("experts",
           [](const std::shared_ptr<Trace>& t) {
             return Views(t).table(choices_of(*t).experts,
                                   {t->file->token_count(), t->file->info().layers(), t->file->info().top_k});
           })
      .def("sequence",
           [](const std::shared_ptr<Trace>& t) {
             return Views(t).table(choices_of(*t).sequence, {t->file->token_count()});
           })
      .def("text", [](const Trace& t) { return trace_summary(*t.file, t.path.filename().string()); })
      .def("json", [](const Trace& t) { return trace_summary_json(*t.file); })
      .def(
          "heatmap", [](const Trace& t, int every) { return trace_heatmap_svg(*t.file, every); }, py::arg("every"))
      .def(
          "slice",
          [](const Trace& t, std::pair<std::int64_t, std::int64_t> rows, std::pair<std::int64_t, std::int64_t> tokens,
             const std::vector<int>& layers) {
            return slice(t, {rows.first, rows.second, tokens.first, tokens.second, layers});
          },
          py::arg("rows"), py::arg("tokens"), py::arg("layers"))
      .def("save", &save, py::arg("to"), py::arg("format"), py::arg("overwrite"));
  py::class_<ComparedTraces>(m, "ComparedTraces")
      .def("text", [](const ComparedTraces& c) { return to_text(c.rows) + "\n" + layers_to_text(c.a, c.b); })
      .def("json", [](const ComparedTraces& c) { return trace_comparison_json(c.rows, c.a, c.b, true); });
  m.def("compare_traces", &compare_traces, py::arg("a"), py::arg("b"));
  m.def("read_trace", &read_trace, py::arg("file"), py::arg("format"), py::arg("options"));
  m.def("generate_trace", &generate, py::arg("model"), py::arg("rows"), py::arg("tokens"), py::arg("sources"),
        py::arg("tokens_per_row"), py::arg("seed"));
  m.def(
      "fit_trace",
      [](const Trace& t, const std::string& name) {
        const py::gil_scoped_release unlock;
        return to_yaml(trace_fit(t.path, name));
      },
      py::arg("trace"), py::arg("name"));
  m.def("routing_presets", [] { return entry_names(routing_presets()); });
}

}  // namespace epsim::python
