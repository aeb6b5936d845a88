#include "sim/report/html_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sim/core/config_json.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/input_tables.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 3;    // folders below the one given
constexpr int kKnownFormat = 1;  // goodput.json is read in kGoodputFormat too
constexpr std::string_view kPlanFormat = "epsim-plan-v1";

// A folder with one of these is an output.
constexpr std::string_view kDocuments[] = {"capacity.json", "claims.json",  "comparison.json", "goodput.json",
                                           "served.json",   "summary.json", "sweep.json"};
constexpr std::string_view kTables[] = {"curve.csv",       "goodput.csv",     "gpus.csv",       "intervals.csv",
                                        "layer_gpu.csv",   "layer_steps.csv", "layers.csv",     "links.csv",
                                        "memory.csv",      "resolved.yaml",   "results.csv",    "setups.csv",
                                        "sensitivity.csv", "series.csv",      "step_kinds.csv", "verdict.txt"};

template <class Names>
bool holds(const Names& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Json parse(const fs::path& file, const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    throw InputError({file.string(), 1 + static_cast<int>(std::count(text.begin(), end, '\n')), ""},
                     "this is not valid JSON; the file is damaged, or not an output of epsim.");
  }
}

void check_document(const fs::path& file, const std::string& text) {
  const Json json = parse(file, text);
  const Json format = json.is_object() && json.contains("format") ? json.at("format") : Json(nullptr);
  const bool of_slo = file.filename() == "goodput.json" && format == kGoodputFormat;
  refuse_if(format != kKnownFormat && !of_slo, {file.string(), 0, "format"},
            fmt::format("{} is not a format that this program reads; it reads {}.", format.dump(), kKnownFormat));
}

// A plan by its first bytes, whatever it is called: looked at before reading, as other files may be large.
bool begins_as_plan(const fs::path& file) {
  std::string head(256, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head.starts_with('{') && head.find(kPlanFormat) != std::string::npos;
}

void check_plan(const fs::path& file, const std::string& text) {
  const Json json = parse(file, text);
  for (const char* key : {"policy", "num_gpus", "num_layers", "num_experts", "balancedness_before",
                          "balancedness_after", "logcnt", "memory_per_gpu_bytes"}) {
    refuse_if(!json.contains(key), {file.string(), 0, key}, "this key is required in a plan and missing.");
  }
}

std::vector<double> even_quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t count = std::min(values.size(), kQuantiles);
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(values[count == 1 ? 0 : i * (values.size() - 1) / (count - 1)]);
  }
  return out;
}

// Of an output folder: other CSV files and scenarios may have these names where it holds more than outputs.
bool is_output(const fs::path& folder) {
  return std::ranges::any_of(kDocuments, [&](std::string_view name) { return fs::exists(folder / name); });
}

// Of a run: as many requests as its summary states.
Columns latency_quantiles(const fs::path& file) {
  std::size_t rows = 0;
  Columns out = request_latencies(file, rows);
  const fs::path summary = file.parent_path() / "summary.json";
  const Json document = parse(summary, read_file(summary));
  const Json stated =
      document.is_object() ? document.value(Json::json_pointer("/requests/offered_requests"), Json()) : Json();
  if (stated.is_number() && stated != rows) {
    throw InputError({file.string(), static_cast<int>(rows) + 1, ""},
                     fmt::format("the file has {} requests, summary.json {}; it is damaged, or of another run.", rows,
                                 stated.dump()));
  }
  for (auto& [name, values] : out) {
    values = even_quantiles(std::move(values));
  }
  return out;
}

void check_scenario(const fs::path& file, const std::string& text) {
  const Json json = Json::parse(yaml_to_json(text, file.string()));
  refuse_if(!json.is_object(), {file.string(), 1, ""},
            text.empty() ? "this file is empty; it is damaged." : "this is no scenario; the file is damaged.");
}

class Collector {
 public:
  explicit Collector(fs::path root) : root_(std::move(root)) {}

  void folder(const fs::path& place, int depth) {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(place)) {
      if (entry.path().filename().string().front() != '.') {
        entries.push_back(entry.path());
      }
    }
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) {
      if (fs::is_directory(entry)) {
        if (depth < kMostDepth) {
          folder(entry, depth + 1);
        }
      } else if (fs::is_regular_file(entry)) {
        file(entry);
      }
    }
  }

  void file(const fs::path& entry) {
    const std::string name = entry.filename().string();
    if (name == "requests.csv") {
      if (!fs::exists(entry.parent_path() / "summary.json")) {
        return;
      }
      out_.quantiles.push_back({path_of(entry.parent_path()), latency_quantiles(entry)});
      return;
    }
    const bool document = holds(kDocuments, name);
    const bool plan = !document && !holds(kTables, name) && begins_as_plan(entry);
    if (!document && !holds(kTables, name) && !plan) {
      return;
    }
    if (fs::file_size(entry) > kMostReportFileBytes || bytes_ + fs::file_size(entry) > kMostReportBytes) {
      out_.left_out.push_back(
          fmt::format("{} is not in this report: it takes {} MB.", path_of(entry), fs::file_size(entry) / 1'000'000));
      return;
    }
    const std::string text = read_file(entry);
    if (document) {
      check_document(entry, text);
    }
    if (name.ends_with(".csv") && is_output(entry.parent_path())) {
      check_table(entry);
    }
    if (name == "resolved.yaml" && is_output(entry.parent_path())) {
      check_scenario(entry, text);
    }
    if (plan) {
      check_plan(entry, text);
      out_.plans.push_back(path_of(entry));
    }
    found_ = found_ || plan || document;
    bytes_ += text.size();
    out_.files.push_back({path_of(entry), text});
  }

  bool found() const { return found_; }
  ReportInput take() { return std::move(out_); }

 private:
  std::string path_of(const fs::path& entry) const {
    const std::string path = entry.lexically_relative(root_).generic_string();
    return path == "." ? "" : path;
  }

  fs::path root_;
  ReportInput out_;
  std::uintmax_t bytes_ = 0;
  bool found_ = false;
};

}  // namespace

ReportInput read_report_input(const fs::path& place) {
  std::error_code ignored;
  refuse_if(!fs::exists(place, ignored), {place.string(), 0, ""}, "there is no such folder or file.");
  const bool one_file = !fs::is_directory(place, ignored);
  const fs::path full = fs::absolute(place).lexically_normal();
  const fs::path clean = full.has_filename() ? full : full.parent_path();  // "out/" is called "out"
  Collector collector(one_file ? clean.parent_path() : clean);
  if (one_file) {
    collector.file(clean);
  } else {
    collector.folder(clean, 0);
  }
  refuse_if(fs::exists(clean / "reproduce.json", ignored) && !fs::exists(clean / "claims.json", ignored),
            {place.string(), 0, ""}, "this reproduction is not finished; rerun the command that began it to continue.");
  refuse_if(!collector.found(), {place.string(), 0, ""},
            one_file ? "this is not a plan of `epsim plan`; name its file, or the folder of another verb."
                     : "there is nothing to report on: no capacity.json, claims.json, comparison.json, goodput.json, "
                       "served.json, summary.json, sweep.json and no plan is in this folder.");
  ReportInput out = collector.take();
  out.title = clean.filename().string();
  return out;
}

}  // namespace epsim
