#include "sim/app/inputs.h"

#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/core/fingerprint.h"

namespace epsim::app {

using Json = nlohmann::ordered_json;

Json manifest_head(int format) {
  return {{"format", format}, {"epsim_version", EPSIM_VERSION}, {"program_hash", describe_file("/proc/self/exe").hash}};
}

Json scenario_manifest(int format, const Scenario& scenario, const std::vector<std::string>& assignments) {
  Json out = manifest_head(format);
  out["scenario"] = scenario.name;
  out["set"] = assignments;
  Fingerprint resolved;
  resolved.add(std::string_view(scenario.resolved));
  out["scenario_hash"] = resolved.hex();
  out["files"] = Json::array();
  for (const std::filesystem::path& file : scenario.input_files) {
    const InputFile described = describe_file(file);
    out["files"].push_back(described.name + " " + described.hash);
  }
  out["seed"] = static_cast<std::int64_t>(scenario.seed);
  return out;
}

std::vector<std::string> assignments_of(const boost::program_options::variables_map& values) {
  return values.count("set") > 0 ? values["set"].as<std::vector<std::string>>() : std::vector<std::string>{};
}

std::string document_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace epsim::app
