// Policies from shared objects: the keys, and the policy that asks the plug-in, here or in a process of its own.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "policies/plugin/plugin_library.h"
#include "policies/plugin/plugin_process.h"
#include "policies/registry.h"
#include "sim/core/config.h"
#include "sim/core/input_file.h"

namespace epsim {
namespace {

constexpr KeyTable kPluginKeys({
    {"plugin", key::path(), key::kNone, "Shared object of a policy of your own; its other options are its own."},
    {"path", key::path(), key::by("required without plugin"), "As `plugin`, in an entry of kind plugin."},
    {"isolate", key::flag(), key::is(false),
     "Run the plug-in in its own process: a crash or an endless loop there is an error of the run."},
    {"timeout", key::time(Bound::kPositive), key::is(Seconds(10)), "With isolate: how long one call may take."},
});

bool same(const PlacementPlan& a, const PlacementPlan& b) {
  return std::equal(
      a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
      [](const LayerPlan& l, const LayerPlan& r) { return l.slots == r.slots && l.first_slot == r.first_slot; });
}

// Without isolate nothing ends a call; its default is not read then, so that Config::resolved() can be read again.
Seconds read_timeout(ConfigReader& in, bool isolate) {
  in.check(isolate || !in.has("timeout"), "timeout",
           "only a plug-in in a process of its own can be ended; give `isolate: true` with it.");
  return isolate ? in.read<Seconds>(kPluginKeys["timeout"]) : Seconds(0);
}

class PluginPlacement final : public PlacementPolicy {
 public:
  PluginPlacement(std::filesystem::path file, ConfigReader& in)
      : place_(in.place("")),
        file_(std::move(file)),
        isolate_(in.read<bool>(kPluginKeys["isolate"])),
        timeout_(read_timeout(in, isolate_)),
        options_(in.rest()) {
    try {
      check_input_file(file_);
      load();
    } catch (const PluginProblem& problem) {
      in.fail(problem.key, about(problem.text));
    } catch (const InputError& error) {
      throw InputError(place_, fmt::format("{}: {}", file_.string(), error.problem));
    }
  }

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    try {
      PlacementPlan made = ask(load, shape);
      std::call_once(compared_, [&] {
        if (!same(ask(load, shape), made)) {
          throw PluginProblem{"",
                              "it gave two different plans for the same loads; equal inputs must give equal plans."};
        }
      });
      return made;
    } catch (const PluginProblem& problem) {
      throw InputError(place_, about(problem.text));
    }
  }

 private:
  // Makes the policy, or has a process of its own try to, for the sake of its errors.
  void load() {
    if (isolate_) {
      name_ = run_in_child([&] { return LoadedPlugin(file_, options_).name(); }, timeout_);
    } else {
      report_plugin_crashes(true);
      here_.emplace(file_, options_);
      name_ = here_->name();
    }
  }

  PlacementPlan ask(const LoadWindow& load, const ClusterShape& shape) const {
    PluginAnswer answer(load, shape);
    if (isolate_) {
      answer.put_bytes(run_in_child(
          [&] {
            PluginAnswer there(load, shape);
            LoadedPlugin(file_, options_).plan(load, shape, there);
            return there.bytes();
          },
          timeout_));
      answer.check();
    } else {
      here_->plan(load, shape, answer);
    }
    return answer.plan(name_);
  }

  std::string about(const std::string& problem) const {
    return fmt::format("plug-in '{}': {}", name_.empty() ? file_.string() : name_, problem);
  }

  InputPlace place_;
  std::filesystem::path file_;
  bool isolate_;
  Seconds timeout_;
  PluginOptions options_;
  std::optional<LoadedPlugin> here_;  // nothing with isolate_
  std::string name_;
  mutable std::once_flag compared_;
};

std::unique_ptr<PlacementPolicy> make_plugin(ConfigReader& options) {
  std::optional<std::filesystem::path> file = options.maybe_path(kPluginKeys["plugin"]);
  if (!file) {
    file = options.path(kPluginKeys["path"]);
  }
  return std::make_unique<PluginPlacement>(*file, options);
}

}  // namespace

extern const PlacementPolicyEntry kPlugin{
    {"plugin",
     "Your own policy, with its own options, loaded from a shared object: policies/plugin/plugin.h, "
     "experiments/plugin-example.",
     "what it likes", kPluginKeys, make_plugin},
    ExpertGroups::kUnknown,
    CopyBudget::kFixed,
    {},
    false,
    Ceiling::kNone,
    {},
    true};

}  // namespace epsim
