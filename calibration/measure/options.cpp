#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <sstream>

#include "calibration/measure/command.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"

namespace epsim::measure {
namespace {

namespace po = boost::program_options;

po::options_description described() {
  po::options_description options("Options");
  const auto text = [] { return po::value<std::string>(); };
  options.add_options()("quick", "two minutes: the hull of every operator");
  options.add_options()("full", "twenty minutes (default)");
  options.add_options()("budget", text(), "wall time of the sweep instead, such as 5min");
  options.add_options()("only", text(), "operators, separated by commas (--list shows them)");
  options.add_options()("models", text(), "models whose shapes are measured, separated by commas (default: all)");
  options.add_options()("output,o", text(), "HDF5 file of the points (default: points.h5)");
  options.add_options()("resume", "go on with that file; its points are not measured again, failed ones are");
  options.add_options()("overwrite", "start that file over");
  options.add_options()("machine", text(), "name of the profile (default: from the GPU)");
  options.add_options()("relative-error", text(), "wanted half width of each median's 95 % interval (default: 0.02)");
  options.add_options()("trace", text(), "routing trace in epsim's HDF5 format: its load gives rows per expert");
  options.add_options()("trace-layer", text(), "MoE layer of the trace, counted from 0 (default: 0)");
  options.add_options()("dry-run", "print what would be measured, and how long it is likely to take");
  options.add_options()("list", "print the operators and whether this machine can measure them");
  options.add_options()("machine-name", "print the name that this machine's profile gets");
  options.add_options()("help,h", "show this text");
  return options;
}

po::variables_map parse(const std::vector<std::string>& words, const po::options_description& options) {
  po::variables_map values;
  try {
    po::store(po::command_line_parser(words)
                  .options(options)
                  .positional({})
                  .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
                  .run(),
              values);
  } catch (const po::unknown_option& e) {
    const std::vector<std::string> names =
        mapped(options.options(), [&](const auto& option) { return "--" + option->long_name(); });
    throw InputError({}, unknown_name("option", e.get_option_name(), names));
  } catch (const po::error& e) {
    throw InputError({}, std::string(e.what()) + "; see --help.");
  }
  return values;
}

double number(const po::variables_map& values, const char* name, double fallback) {
  if (!values.contains(name)) {
    return fallback;
  }
  const std::string& text = values[name].as<std::string>();
  std::size_t used = 0;
  double x = 0;
  try {
    x = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  refuse_if(used != text.size() || text.empty(), std::string("--") + name, "'" + text + "' is no number.");
  return x;
}

Seconds budget_of(const po::variables_map& values) {
  refuse_if(values.contains("quick") + values.contains("full") + values.contains("budget") > 1, "",
            "--quick, --full and --budget exclude each other.");
  if (!values.contains("budget")) {
    return values.contains("quick") ? Seconds(120) : Seconds(1200);
  }
  std::string problem;
  const auto seconds = parse_quantity(values["budget"].as<std::string>(), "time", problem);
  refuse_if(!seconds || !(*seconds > 0), "--budget", problem.empty() ? "a budget is positive, such as 5min." : problem);
  return Seconds(*seconds);
}

std::vector<const OpSpec*> ops_of(const po::variables_map& values) {
  std::vector<const OpSpec*> out;
  if (!values.contains("only")) {
    for (const OpSpec& op : all_ops()) {
      out.push_back(&op);
    }
    return out;
  }
  for (const std::string& name : split_list(values["only"].as<std::string>())) {
    out.push_back(&find_op(name));
  }
  refuse_if(out.empty(), "--only", "names no operator; --list shows them.");
  return out;
}

}  // namespace

std::string usage() {
  std::ostringstream out;
  out << "epsim-calibrate [--quick | --full] [--only OP,...] [--output FILE]\n\n"
         "Measures what MoE inference does on this machine's GPUs and keeps the points in an HDF5 file, from which\n"
         "`epsim calibrate fit` makes a profile.\n\n"
      << described();
  return out.str();
}

CalibrateOptions parse_options(const std::vector<std::string>& words) {
  const po::variables_map values = parse(words, described());
  const auto text = [&](const char* name, const char* fallback) {
    return values.contains(name) ? values[name].as<std::string>() : std::string(fallback);
  };
  CalibrateOptions out;
  out.help = values.contains("help");
  out.list = values.contains("list");
  out.machine_name = values.contains("machine-name");
  out.dry_run = values.contains("dry-run");
  out.resume = values.contains("resume");
  out.overwrite = values.contains("overwrite");
  refuse_if(out.resume && out.overwrite, "", "--resume and --overwrite exclude each other.");
  out.sweep.budget = budget_of(values);
  out.sweep.rule.relative_error = number(values, "relative-error", out.sweep.rule.relative_error);
  out.sweep.rule.validate();
  out.sweep.output = text("output", "points.h5");
  out.ops = ops_of(values);
  out.models = split_list(text("models", ""));
  out.machine = text("machine", "");
  out.trace = text("trace", "");
  const double layer = number(values, "trace-layer", 0);
  refuse_if(layer < 0 || layer != static_cast<int>(layer), "--trace-layer", "a layer is a whole number from 0 on.");
  out.trace_layer = static_cast<int>(layer);
  return out;
}

}  // namespace epsim::measure
