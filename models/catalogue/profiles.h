// The fitted profiles that come with the program, by machine.
#pragma once

#include <string>
#include <vector>

#include "models/profile/fitted_op.h"

namespace epsim {

std::vector<std::string> fitted_profile_names();

// By machine ("a100"), or the path of a fit.yaml. InputError, listing all, for a name that is neither.
FittedProfile fitted_profile(const std::string& name_or_path);

}  // namespace epsim
