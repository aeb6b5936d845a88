// What a plug-in says in one call, checked as it comes; and the same as bytes, for plug-ins in a process of their own.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "policies/placement_policy.h"
#include "policies/plugin/plugin.h"

namespace epsim {

// What is wrong with a plug-in or its plan. `key`: the option at fault, "" for none.
struct PluginProblem {
  std::string key, text;
};

class PluginAnswer {
 public:
  PluginAnswer() = default;  // of a call that asks for no plan
  PluginAnswer(const LoadWindow& load, const ClusterShape& shape);

  // The callbacks of plugin.h. They must not throw through the plug-in and may be called from any of its threads, so
  // the first mistake is kept for later.
  epsim_host host();
  void put(std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count) noexcept;
  void fail(const char* key, const char* text) noexcept;

  // Throws the PluginProblem of the call, if any.
  void check() const;
  // The plan, under the plug-in's name. Throws PluginProblem where it is incomplete.
  PlacementPlan plan(const std::string& name) const;

  // All puts as bytes, and those bytes put again: they are checked like a plug-in's own.
  std::string bytes() const;
  void put_bytes(std::string_view bytes);

 private:
  void take(std::int32_t layer, std::int32_t gpu, const std::int32_t* experts, std::int32_t count);

  std::mutex turn_;
  int layers_ = -1, experts_ = 0, gpus_ = 0;
  std::int64_t slots_used_ = 0;
  std::vector<std::vector<std::vector<int>>> slots_;  // [layer][GPU]
  std::vector<std::vector<bool>> given_;
  bool failed_ = false;
  PluginProblem problem_;
};

// Text of a plug-in's, cut to 1000 printable characters.
std::string plugin_text(const char* text);

}  // namespace epsim
