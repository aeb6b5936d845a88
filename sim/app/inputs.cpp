#include "sim/app/inputs.h"

#include "sim/core/files.h"
#include "sim/core/fingerprint.h"

namespace epsim::app {

RunInfo describe_inputs(const Scenario& scenario) {
  RunInfo info;
  info.version = EPSIM_VERSION;
  info.scenario = scenario.name;
  info.seed = static_cast<std::uint64_t>(scenario.seed);
  info.resolved_yaml = scenario.resolved;
  for (const std::filesystem::path& file : scenario.input_files) {
    const std::string content = read_file(file);
    Fingerprint hash;
    hash.add(std::string_view(content));
    // As resolved.yaml has it, so that a run of that tells the same.
    const std::string name = std::filesystem::absolute(file).lexically_normal().string();
    info.inputs.push_back({name, static_cast<std::int64_t>(content.size()), hash.hex()});
  }
  return info;
}

}  // namespace epsim::app
