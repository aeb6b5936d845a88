#include "sim/verbs/sweep_study.h"

#include "sim/core/config.h"

namespace epsim {
namespace {

SweepAxis read_axis(ConfigReader& axes, const std::string& name) {
  if (!axes.is_section(name)) {
    return {name, axes.required<std::vector<std::string>>(name), {}};
  }
  SweepAxis out{name, {}, {}};
  ConfigReader labels = axes.section(name);
  for (const std::string& label : labels.keys()) {
    out.values.push_back(label);
    out.settings.push_back(labels.required<std::vector<std::string>>(label));
    for (const std::string& setting : out.settings.back()) {
      labels.check(setting.find('=') != std::string::npos, label, "a value sets keys as --set does: cluster.nodes=4.");
    }
  }
  return out;
}

}  // namespace

std::optional<SweepStudy> read_sweep_study(const std::filesystem::path& file) {
  const Config config = Config::from_file(file);
  ConfigReader root = config.root();
  if (!root.has("axes")) {
    return std::nullopt;
  }
  SweepStudy out{root.path("scenario"), {}, {}};
  ConfigReader axes = root.required_section("axes");
  for (const std::string& name : axes.keys()) {
    out.axes.push_back(read_axis(axes, name));
    axes.check(!out.axes.back().values.empty(), name, "an axis has at least one value.");
  }
  for (const std::string& option : root.keys()) {
    if (option != "scenario" && option != "axes") {
      out.options.emplace_back(option, root.required<std::string>(option));
    }
  }
  return out;
}

}  // namespace epsim
