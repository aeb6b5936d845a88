// How far a sweep is, from its folder alone: `epsim sweep --status FOLDER`.
#pragma once

#include <filesystem>
#include <string>

namespace epsim {

// What the user reads. Throws InputError when the folder holds no sweep.
std::string sweep_status(const std::filesystem::path& folder);

}  // namespace epsim
