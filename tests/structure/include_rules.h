// Who may include whom: the layers of the program, and a checker that reads source text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace epsim::test {

// A folder of the repository, and the folders or single headers that its files may include besides their own folder.
struct IncludeRule {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};

// Lowest layer first. A folder under sim/, or a new top folder with sources, must be entered here.
const std::vector<IncludeRule>& include_rules();

// Folders whose files may include anything of the repository.
const std::vector<std::string_view>& unlayered_folders();

// Checks the text of the source file `path` (from the repository's root). `exists` tells whether a path names a file.
// Each violation is one message: file, line, what is included, and what is allowed.
std::vector<std::string> include_violations(const std::string& path, const std::string& text,
                                            const std::function<bool(const std::string&)>& exists);

}  // namespace epsim::test
