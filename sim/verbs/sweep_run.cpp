#include "sim/verbs/sweep_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "sim/core/files.h"
#include "sim/core/text.h"
#include "sim/study/job_runner.h"
#include "sim/study/study_manifest.h"
#include "sim/verbs/sweep_tables.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSweepFormat = 1;  // of sweep.json
constexpr std::size_t kMostErrorsKept = 10;

// The scenario of the first point that can be read: as a rule the very first. Refuses a sweep that has none such: a key
// that is misspelt spoils all points, and the first error says it best.
Scenario first_scenario(const SweepRequest& request) {
  std::optional<InputError> first;
  for (std::size_t i = 0; i < count_points(request); ++i) {
    try {
      return scenario_at(request, i);
    } catch (const InputError& e) {
      if (!first) {
        first = e;
      }
    }
  }
  throw *first;
}

// Whether it says that there is no policy of that name, neither in the scenario nor of our own.
bool is_unknown_policy(const InputError& error) {
  return error.place.key == "policies" && error.place.file.empty() && error.problem.starts_with("unknown policy");
}

// Refuses a policy that no combination knows: all its points would fail, one after the other.
void check_policies(const SweepRequest& request) {
  const std::size_t listed = request.policies.size() - request.added;
  for (std::size_t p = 0; p < listed; ++p) {
    std::optional<InputError> unknown;
    bool known = false;
    for (std::size_t i = p; i < count_points(request) && !known; i += request.policies.size()) {
      try {
        scenario_at(request, i);
        known = true;
      } catch (const InputError& e) {
        known = !is_unknown_policy(e);
        unknown = e;
      }
    }
    if (!known) {
      throw *unknown;
    }
  }
}

// The inputs of the sweep as its folder keeps them.
std::string manifest_of(const SweepRequest& request, const std::string& scenario) {
  Json out = manifest_head(kSweepFormat);
  out["scenario"] = scenario;
  out["scenario_hash"] = describe_file(request.scenario).hash;
  out["measure"] = request.measure == SweepMeasure::kRun ? "run" : "goodput";
  if (request.measure == SweepMeasure::kGoodput) {
    out["goodput"] = goodput_options_json(request.goodput);
  }
  out["overrides"] = request.overrides;
  out["axes"] = Json::array();
  for (const SweepAxis& axis : request.axes) {
    out["axes"].push_back({{"key", axis.key}, {"values", axis.values}});
    if (!axis.settings.empty()) {
      out["axes"].back()["settings"] = axis.settings;
    }
  }
  out["policies"] = request.policies;
  out["not_for_use"] = not_for_use(request);  // for the report
  return document_text(out);
}

// Finished points must have read the input files as they are now. One of each label is asked: their inputs are the
// same.
void check_inputs(const SweepRequest& request, const JobStore& store) {
  UnchangedInputs inputs;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < count_points(request); ++i) {
    if (store.has(key_of_point(i)) && seen.insert(store.label_of(key_of_point(i))).second) {
      inputs.check(load_point(store, i));
    }
  }
}

std::vector<std::size_t> unfinished(const std::vector<std::string>& keys, const JobStore& store) {
  std::vector<std::size_t> out = jobs_of(store.shard(), keys.size());
  std::erase_if(out, [&](std::size_t i) { return store.has(keys[i]); });
  return out;
}

}  // namespace

bool holds_sweep(const fs::path& folder, const SweepRequest& request) {
  check_axes(request.axes, request.overrides, request.policies.size());
  return holds_study(folder, kSweepStore, manifest_of(request, first_scenario(request).name));
}

namespace {

// A sweep whose folder is open.
struct OpenSweep {
  OpenSweep(const SweepRequest& request, const fs::path& target, const SweepControl& control)
      : first(checked(request)),
        manifest(manifest_of(request, first.name)),
        store(target, kSweepStore, manifest, control.overwrite, sharing_of(control)) {
    check_inputs(request, store);
    write_file_atomically(store.path() / "resolved.yaml", first.resolved);
    for (std::size_t i = 0; i < count_points(request); ++i) {
      keys.push_back(key_of_point(i));
    }
  }
  static Sharing sharing_of(const SweepControl& control) {
    Sharing out = control.sharing;
    out.drop_label = control.retry_failed ? kFailedLabel : "";
    return out;
  }
  static Scenario checked(const SweepRequest& request) {
    check_axes(request.axes, request.overrides, request.policies.size());
    Scenario first = first_scenario(request);
    check_policies(request);
    return first;
  }

  Scenario first;
  std::string manifest;
  JobStore store;
  std::vector<std::string> keys;
};

}  // namespace

std::size_t prepare_sweep(const SweepRequest& request, const fs::path& target, const SweepControl& control) {
  const OpenSweep sweep(request, target, control);
  return unfinished(sweep.keys, sweep.store).size();
}

SweepOutcome run_sweep(const SweepRequest& request, const fs::path& target, const SweepControl& control) {
  const OpenSweep sweep(request, target, control);
  const JobStore& store = sweep.store;
  const std::vector<std::string>& keys = sweep.keys;
  const std::vector<std::size_t> left = unfinished(keys, store);
  if (control.on_start) {
    control.on_start(left.size(), jobs_of(store.shard(), keys.size()).size() - left.size());
  }
  const JobControl jobs{control.stop, [&](std::size_t) { control.on_point ? control.on_point() : void(); }};
  PlanCache plans;
  const auto run = [&](std::size_t i, const Abandoned&) {
    const std::size_t alike = first_alike(request, i);
    std::optional<SweepPoint> point;
    if (alike != i && store.has(keys[alike]) && names_no_other(request, i)) {
      point = load_point(store, alike);
      point->index = i;
    }
    if (!point || !point->error.empty()) {  // an error names its point's values
      point = run_point(request, i, control.stop, plans, control.on_serving);
    }
    return KeptText{stored_text(*point), label_of(*point)};
  };
  try {
    const std::vector<std::size_t> mine = jobs_of(store.shard(), keys.size());
    std::vector<std::size_t> firsts;  // before those that are alike: they take their figures
    std::ranges::copy_if(mine, std::back_inserter(firsts), [&](std::size_t i) { return first_alike(request, i) == i; });
    run_kept_jobs(store, keys, firsts, jobs, run);
    run_kept_jobs(store, keys, mine, jobs, run);
  } catch (const StudyInterrupted&) {
    return {.interrupted = true};
  }
  if (!store.shard().whole()) {
    throw ShardFinished();
  }
  store.finish();
  check_inputs(request, store);
  SweepOutcome out{.points = keys.size(), .tables = write_sweep_tables(request, store, sweep.manifest, control.shown)};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool added = request.added > 0 && i % request.policies.size() + request.added >= request.policies.size();
    if (!store.label_of(keys[i]).starts_with(kFailedLabel)) {
      continue;
    }
    out.listed_failed += added ? 0 : 1;
    if (++out.failed <= kMostErrorsKept) {
      out.errors.push_back(fmt::format("point {} failed: {}", i, replaced(load_point(store, i).error, "\n ", "")));
    }
  }
  return out;
}

}  // namespace epsim
