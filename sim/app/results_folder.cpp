#include "sim/app/results_folder.h"

#include <fmt/format.h>

#include "sim/app/output.h"
#include "sim/core/error.h"

namespace epsim::app {

namespace fs = std::filesystem;

ResultsFolder::ResultsFolder(const po::variables_map& values, const std::string& name,
                             const std::function<bool(const fs::path&)>& ours) {
  if (const std::optional<fs::path> named = named_folder(values)) {
    path_ = *named;
    return;
  }
  own_name_ = true;
  path_ = fs::path("out") / name;
  if (values["overwrite"].as<bool>()) {
    return;
  }
  std::error_code failed;
  fs::create_directories("out", failed);
  for (int number = 2; !failed; ++number) {
    reserved_ = fs::create_directory(path_, failed);
    if (reserved_ || (ours && ours(path_))) {
      return;
    }
    // Where a file has the name, the error is that it exists.
    failed = failed == std::errc::file_exists ? std::error_code() : failed;
    path_ = fs::path("out") / fmt::format("{}-{}", name, number);
  }
  throw InputError({path_.string(), 0, ""},
                   fmt::format("the results folder cannot be created: {}; name another with -o.", failed.message()));
}

ResultsFolder::~ResultsFolder() {
  std::error_code ignored;
  if (reserved_) {
    fs::remove(path_, ignored);  // removes an empty folder only
  }
}

void ResultsFolder::publish() const {
  std::error_code ignored;
  const fs::path link = path_.parent_path() / "last";
  if (!own_name_ || (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link, ignored))) {
    return;
  }
  fs::remove(link, ignored);
  fs::create_directory_symlink(path_.filename(), link, ignored);  // a convenience: no link on file systems without any
}

}  // namespace epsim::app
