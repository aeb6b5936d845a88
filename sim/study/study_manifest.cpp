#include "sim/study/study_manifest.h"

#include <nlohmann/json.hpp>

#include "sim/core/files.h"
#include "sim/core/fingerprint.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json manifest_head(int format) {
  return {{"format", format}, {"epsim_version", EPSIM_VERSION}, {"program_hash", describe_file(program_file()).hash}};
}

Json scenario_manifest(int format, const Scenario& scenario, const std::vector<std::string>& assignments) {
  Json out = manifest_head(format);
  out["scenario"] = scenario.name;
  out["set"] = assignments;
  Fingerprint resolved;
  resolved.add(std::string_view(scenario.resolved));
  out["scenario_hash"] = resolved.hex();
  out["files"] = described_files(scenario.input_files);
  out["seed"] = static_cast<std::int64_t>(scenario.seed);
  return out;
}

Json goodput_options_json(const GoodputOptions& o) {
  Json out{{"k", o.k},
           {"sensitivity", o.sensitivity},
           {"sensitivity_of_first_seed", o.sensitivity_of_first_seed},
           {"min_completed", o.min_completed},
           {"tolerance", o.tolerance},
           {"warmup_share", o.warmup_share},
           {"drain_share", o.drain_share},
           {"max_drift", o.max_drift},
           {"min_requests_ratio", o.min_requests_ratio},
           {"slo", name_of(o.slo)},
           {"rates", o.rates},
           {"branches", o.branches}};
  if (o.most_requests != kMostSloRequests) {  // studies from before there was a choice go on
    out["most_requests"] = o.most_requests;
  }
  return out;
}

std::string document_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace epsim
