// Work in a child process: whatever it does, this process goes on.
#pragma once

#include <functional>
#include <string>

#include "sim/core/units.h"

namespace epsim {

// Runs `work` in a copy of this process and returns its bytes. Throws PluginProblem (plugin_answer.h): one that `work`
// throws, or one that says how the child crashed, ended or was killed after `timeout`. The child may take 4 GiB of
// memory more than this process has; its standard output goes to standard error.
std::string run_in_child(const std::function<std::string()>& work, Seconds timeout);

}  // namespace epsim
