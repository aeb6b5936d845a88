#include "calibration/measure/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "calibration/measure/provenance.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim::measure {
namespace {

std::vector<MoeSpec> models_of(const CalibrateOptions& options) {
  std::vector<MoeSpec> out;
  if (options.models.empty()) {
    for (const ModelItem& item : list_models()) {
      out.push_back(find_model(item.name));
    }
  }
  for (const std::string& name : options.models) {
    out.push_back(find_model(name));
  }
  return out;
}

// Load per expert of the trace's layer. The trace must be of the first model of --models.
std::vector<double> load_of(const CalibrateOptions& options, const std::vector<MoeSpec>& models) {
  if (options.trace.empty()) {
    return {};
  }
  refuse_if(options.models.size() != 1, "--trace", "a trace belongs to one model; name it with --models.");
  Config config = Config::from_text("kind: trace_file\n", "--trace");
  config.set("path=" + options.trace.string());
  ConfigReader reader = config.root();
  const LoadWindow window = read_load_window(reader, models.front(), Seed{0});
  reader.finish();
  refuse_if(options.trace_layer >= window.layers(), {options.trace.string(), 0, "--trace-layer"},
            fmt::format("the trace has {} MoE layers, counted from 0.", window.layers()));
  const auto load = window.layer(options.trace_layer);
  return {load.begin(), load.end()};
}

void print_ops(const Device* device, std::ostream& out) {
  for (const OpSpec& op : all_ops()) {
    const auto reason = device != nullptr ? device->waived(op) : std::nullopt;
    out << fmt::format("{:<20} {}{}\n", op.name, op.summary, reason ? " [waived: " + *reason + "]" : "");
  }
}

// Without a device the list is still of use, so a missing one is no error here.
int list_ops(const CommandContext& context, std::ostream& out) {
  std::string missing;
  OpenedDevice opened;
  try {
    opened = context.open();
  } catch (const RunFailed& e) {
    missing = e.what();
  }
  print_ops(opened.device.get(), out);
  if (opened.device) {
    out << fmt::format("\non {}\n", opened.device->facts().name);
  } else {
    out << fmt::format("\nnothing can be measured here: {}\n", missing);
  }
  return 0;
}

void print_plan(const std::vector<PlannedPoint>& plan, Seconds budget, std::ostream& out) {
  struct PerOp {
    std::size_t points = 0, in_time = 0;
    Seconds cost{0};
  };
  std::map<std::string, PerOp> ops;
  Seconds sum{0};
  for (const PlannedPoint& p : plan) {
    PerOp& op = ops[std::string(p.op->name)];
    op.in_time += sum < budget ? 1 : 0;
    sum += p.cost;
    op.cost += p.cost;
    ++op.points;
  }
  out << fmt::format("{:<20} {:>7} {:>15} {:>12}\n", "operator", "points", "within budget", "all take");
  for (const auto& [name, op] : ops) {
    out << fmt::format("{:<20} {:>7} {:>15} {:>10.0f} s\n", name, op.points, op.in_time, op.cost.count());
  }
  out << fmt::format("budget {:.0f} s; the whole grid is predicted to take {:.0f} s\n", budget.count(), sum.count());
}

Results open_results(const CalibrateOptions& options, const Provenance& provenance) {
  const std::filesystem::path& file = options.sweep.output;
  if (std::filesystem::exists(file) && options.resume) {
    return Results::resume(provenance, file);
  }
  refuse_if(std::filesystem::exists(file) && !options.overwrite, {file.string(), 0, ""},
            "the file exists; give --resume to go on with it, or --overwrite.");
  if (file.has_parent_path()) {
    std::filesystem::create_directories(file.parent_path());
  }
  return Results(provenance);
}

Provenance complete(const Provenance& device, const std::string& machine) {
  Provenance out = host_provenance(machine.empty() ? machine_name(device.gpu) : machine);
  out.gpu = device.gpu;
  out.driver = device.driver;
  out.cuda = device.cuda;
  out.nccl = device.nccl;
  out.cublas = device.cublas;
  out.ecc = device.ecc;
  return out;
}

int report(const SweepSummary& s, const Results& results, const std::filesystem::path& file, std::ostream& out) {
  out << fmt::format("{} points measured now, {} before, {} failed, {} waived, {} left; {}\n", s.measured, s.already,
                     s.failed, s.waived, s.left, file.string());
  for (const auto& [key, reason] : results.failures()) {
    out << fmt::format("  failed: {}: {}\n", key, reason);
  }
  if (s.end == SweepEnd::kInterrupted) {
    out << "interrupted; continue with --resume\n";
    return 130;
  }
  if (s.end == SweepEnd::kBudget) {
    out << "the time is used up; the hull was measured first, and --resume with a new budget fills in the rest\n";
  }
  return s.measured + s.already > 0 ? 0 : 1;
}

int measure(CalibrateOptions& options, const CommandContext& context, std::ostream& out) {
  const std::vector<MoeSpec> models = models_of(options);
  const SweepRequest request{models, options.ops, load_of(options, models), options.sweep.rule};
  const OpenedDevice opened = context.open();
  const std::vector<PlannedPoint> plan = plan_sweep(request, *opened.device);
  if (options.dry_run) {
    print_plan(plan, options.sweep.budget, out);
    return 0;
  }
  Results results = open_results(options, complete(opened.provenance, options.machine));
  if (!opened.provenance.notes.empty()) {
    results.note("device", opened.provenance.notes);
  }
  for (const OpSpec* op : options.ops) {
    if (const auto reason = opened.device->waived(*op)) {
      out << fmt::format("waived: {}: {}\n", op->name, *reason);
      results.note("waived " + std::string(op->name), *reason);
    }
  }
  options.sweep.interrupted = context.interrupted;
  options.sweep.say = [&out](const std::string& line) { out << line << std::endl; };
  const SweepSummary summary = run_sweep(*opened.device, *context.clock, plan, options.sweep, results);
  return report(summary, results, options.sweep.output, out);
}

}  // namespace

int calibrate(const std::vector<std::string>& words, const CommandContext& context, std::ostream& out) {
  CalibrateOptions options = parse_options(words);
  if (options.help) {
    out << usage();
    return 0;
  }
  if (options.machine_name) {
    out << machine_name(context.open().provenance.gpu) << "\n";
    return 0;
  }
  return options.list ? list_ops(context, out) : measure(options, context, out);
}

}  // namespace epsim::measure
