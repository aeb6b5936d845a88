#include "sim/verbs/goodput_folder.h"

#include <nlohmann/json.hpp>

#include "sim/core/mapped.h"
#include "sim/study/study_manifest.h"

namespace epsim {

namespace {

constexpr int kGoodputFormat = 1;  // of study.json

}  // namespace

std::string goodput_manifest(const std::vector<Scenario>& by_seed, const GoodputOptions& options,
                             const std::vector<std::string>& assignments) {
  nlohmann::ordered_json out = scenario_manifest(kGoodputFormat, by_seed.front(), assignments);
  out["options"] = goodput_options_json(options);
  out["seeds"] = by_seed.size();
  out["policies"] = mapped(by_seed.front().policies, &PolicyChoice::label);
  return document_text(out);
}

}  // namespace epsim
