// A shared object that is a plug-in: found, checked, loaded, asked.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "policies/plugin/plugin_answer.h"

namespace epsim {

using PluginOptions = std::vector<std::pair<std::string, std::string>>;  // key, value as YAML text

// Whether a crash or exit() inside a plug-in writes a line on standard error before it ends the process; for all
// threads.
void report_plugin_crashes(bool wanted);

// A policy from a plug-in, in this process. The file stays loaded as long as it lives.
class LoadedPlugin {
 public:
  // Throws PluginProblem.
  LoadedPlugin(const std::filesystem::path& file, const PluginOptions& options);
  ~LoadedPlugin();
  LoadedPlugin(const LoadedPlugin&) = delete;
  LoadedPlugin& operator=(const LoadedPlugin&) = delete;

  const std::string& name() const { return name_; }
  // Fills `answer` by the plug-in's puts. Throws PluginProblem.
  void plan(const LoadWindow& load, const ClusterShape& shape, PluginAnswer& answer) const;

 private:
  void find_entry();
  void create(const PluginOptions& options);

  void* handle_ = nullptr;
  const epsim_plugin* entry_ = nullptr;
  std::string name_;
  void* policy_ = nullptr;
};

}  // namespace epsim
