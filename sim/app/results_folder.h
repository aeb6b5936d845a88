// Where a verb puts its results: the folder of --output, or one of its own below out/.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "sim/app/po.h"

namespace epsim::app {

// Without --output: out/NAME, or the first of out/NAME-2, out/NAME-3, ... that no other run has taken, reserved by
// making it. With --overwrite out/NAME in any case. A reserved folder that stays empty goes away again.
class ResultsFolder {
 public:
  // `ours`: whether a folder that exists may be taken nevertheless, for verbs that go on with earlier work.
  ResultsFolder(const po::variables_map& values, const std::string& name,
                const std::function<bool(const std::filesystem::path&)>& ours = {});
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // To be called when the results are there: lets out/last point at them, unless --output named the folder.
  void publish() const;

 private:
  std::filesystem::path path_;
  bool reserved_ = false, own_name_ = false;
};

}  // namespace epsim::app
