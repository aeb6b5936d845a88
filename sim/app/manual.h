// The manual page of the program, from what its verbs say of themselves.
#pragma once

#include <span>
#include <string>

#include "sim/app/command_line.h"

namespace epsim::app {

// A page in troff's man macros: `introduction` and the help of every verb.
std::string manual_page(std::span<const Verb> verbs, const std::string& introduction);

}  // namespace epsim::app
