// What a run was made from, for the files that record it.
#pragma once

#include <boost/program_options.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace epsim::app {

// What the folder of a study keeps of its inputs, so that it goes on with no others: the layout's number and the
// program. Two builds of one version may compute different figures: a study must not mix them.
nlohmann::ordered_json manifest_head(int format);
// The same, and a scenario with everything it reads; `assignments` are those of --set.
nlohmann::ordered_json scenario_manifest(int format, const Scenario& scenario,
                                         const std::vector<std::string>& assignments);
// The values of --set, if any.
std::vector<std::string> assignments_of(const boost::program_options::variables_map& values);
// As the text of a file.
std::string document_text(const nlohmann::ordered_json& json);

}  // namespace epsim::app
