// What the folder of a study records of its inputs, so that it goes on with no others.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/scenario/scenario.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// The layout's number and the program: its version and the hash of the file that this code runs from, which is the
// program `epsim` or the Python module. Two builds of one version may compute different figures.
nlohmann::ordered_json manifest_head(int format);
// The same, and a scenario with everything it reads; `assignments` are those of --set.
nlohmann::ordered_json scenario_manifest(int format, const Scenario& scenario,
                                         const std::vector<std::string>& assignments);
// Names and contents of files: another content is another input.
template <class Files>
std::vector<std::string> described_files(const Files& files) {
  return mapped(files, [](const std::filesystem::path& file) {
    const InputFile described = describe_file(file);
    return described.name + " " + described.hash;
  });
}
// Every option of a search.
nlohmann::ordered_json goodput_options_json(const GoodputOptions& options);
// As the text of a file.
std::string document_text(const nlohmann::ordered_json& json);

}  // namespace epsim
