// Which kind of request trace a file is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace epsim {

// The kind of a folder or a file, told from its first bytes (after gunzipping). Throws InputError when it is none that
// can be told; a table of other columns needs `kind: csv`, which names them.
std::string detect_request_kind(const std::filesystem::path& path);

// The same from the first bytes; empty when they tell nothing.
std::string kind_of_bytes(std::string_view head);

}  // namespace epsim
