// Reads a scenario from one YAML document, and checks it before anything runs.
#pragma once

#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// Reads the scenario; `labels` names the policies to compare, and none means the scenario's own `policy`. A label is an
// entry of `policies:` or the plain name of a policy. Throws InputError for anything that cannot be run.
Scenario read_scenario(const Config& config, const std::vector<std::string>& labels);

// Whether `requests.rate` sets how many requests arrive: not where they come by onoff, sessions or hourly rates.
bool takes_rate(const Scenario& scenario);
// The key of `requests` that says how many there are, or for how long they come; empty for recorded ones.
std::string length_key(const Scenario& scenario);

}  // namespace epsim
