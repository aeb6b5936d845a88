#include "sim/app/served_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/cluster/run_policy.h"
#include "sim/core/files.h"
#include "sim/core/fingerprint.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario_keys.h"
#include "sim/study/job_runner.h"
#include "sim/study/store_json.h"
#include "sim/study/study_manifest.h"

namespace epsim::app {
namespace {

constexpr StoreKind kServedStore{"comparison with served points", "served-inputs.json", "points"};
constexpr char kSetOption[] = "--set";
constexpr int kServedFormat = 3;  // of served-inputs.json and of a point's file

std::string served_manifest(const ServedRequest& request) {
  nlohmann::ordered_json out = manifest_head(kServedFormat);
  for (const auto& [key, file] : {std::pair("table", request.table), std::pair("layout", request.layout.file),
                                  std::pair("scenario", request.scenario)}) {
    const InputFile described = describe_file(file);
    out[key] = {{"file_name", described.name}, {"content_hash", described.hash}};
  }
  out["overrides"] = request.overrides;
  return document_text(out);
}

std::string key_of(const std::vector<std::string>& assignments) {
  Fingerprint hash;
  for (const std::string& one : assignments) {
    hash.add(std::string_view(one));
  }
  return hash.hex();
}

// ---- one run ----

// Of the instances that hand out tokens after the first.
std::vector<std::pair<std::string, double>> terms_of(const RunResult& run, double tpot_s) {
  StepCost decode;
  double prompts = 0, all = 0;
  for (const InstanceTotals& instance : run.instances) {
    if (instance.role == InstanceRole::kPrefill) {
      continue;
    }
    const auto of_kind = [&](StepKind kind) { return instance.by_kind[static_cast<std::size_t>(kind)].time; };
    add_cost(decode, of_kind(StepKind::kDecode));
    prompts += of_kind(StepKind::kPrefill).total.count() + of_kind(StepKind::kMixed).total.count();
    all += instance.time.total.count();
  }
  std::vector<std::pair<std::string, double>> out;
  for (int p = 0; p < kLayerParts && all > 0; ++p) {
    const double part = decode.by_part[static_cast<std::size_t>(p)].count();
    if (part > 0) {
      out.emplace_back(kLayerPartNames[static_cast<std::size_t>(p)], part / all * tpot_s);
    }
  }
  if (prompts > 0 && all > 0) {
    out.emplace_back("prompts", prompts / all * tpot_s);
  }
  return out;
}

ServedRun run_served_point(const ServedRequest& request, const std::vector<std::string>& assignments,
                           const std::atomic<bool>* stop, PlanCache& plans) {
  ServedRun out;
  try {
    Config config = Config::from_file(request.scenario);
    config.set(assignments, request.layout.file.filename().string());
    config.set(request.overrides, kSetOption);
    const Scenario scenario = read_scenario(config, {});
    const PreparedRun prepared = prepare_run(scenario, scenario.policies.front(), &plans);
    RunControl control;
    control.stop = stop;
    const RunResult run = whole_run(run_prepared(scenario, prepared, scenario.requests, control));
    const double Summary::*statistic = request.layout.means ? &Summary::mean : &Summary::p50;
    out.predicted = {run.latency.ttft_s.*statistic, run.latency.tpot_s.*statistic, run.latency.e2e_s.*statistic};
    const ServingOptions& serving = prepared.last().serving;
    out.kv_tokens = static_cast<double>(serving.kv_blocks * serving.kv_block_tokens);
    out.extrapolated = run.extrapolated_share();
    out.tpot_terms = terms_of(run, out.predicted[1]);
    out.stand_ins = run.carried_over;
    out.drafts = serving.speculative.draft_tokens > 0;
    const PreparedInstance& first = prepared.pools.front();
    out.prefill_ranks = first.pool.role == InstanceRole::kPrefill ? first.pool.instances * first.serving.dp_ranks : 0;
  } catch (const InputError& e) {
    out.error = e.place.key.empty() ? e.problem : e.place.key + ": " + e.problem;
  }
  return out;
}

}  // namespace

EPSIM_STORED(ServedRun, error, predicted, kv_tokens, extrapolated, tpot_terms, stand_ins, drafts, prefill_ranks);

void check_overrides(const ServedRequest& request, const std::vector<ServedPoint>& points) {
  std::optional<std::vector<InputError>> refused;  // by the scenarios of all points so far
  for (const ServedPoint& point : points) {
    if (!point.reasons.empty() || (refused && refused->empty())) {
      continue;
    }
    Config config = Config::from_file(request.scenario);
    try {
      config.set(point.assignments, request.layout.file.filename().string());
    } catch (const InputError&) {
      continue;  // the layout's, told with the point
    }
    config.set(request.overrides, kSetOption);
    ScenarioCheck check = check_scenario_keys(config.root());
    check.errors.insert(check.errors.end(), check.unknown.begin(), check.unknown.end());
    std::erase_if(check.errors, [](const InputError& error) { return error.place.file != kSetOption; });
    const auto taken = [&](const InputError& earlier) {
      return std::ranges::none_of(check.errors, [&](const InputError& e) { return e.place.key == earlier.place.key; });
    };
    if (refused) {
      std::erase_if(*refused, taken);
    } else {
      refused = std::move(check.errors);
    }
  }
  if (refused && !refused->empty()) {
    throw_all(*std::move(refused));
  }
}

bool holds_served(const std::filesystem::path& folder, const ServedRequest& request) {
  return holds_study(folder, kServedStore, served_manifest(request));
}

bool run_served(const ServedRequest& request, std::vector<ServedPoint>& points, const std::filesystem::path& folder,
                const ServedControl& control) {
  std::vector<std::string> keys;
  std::vector<const ServedPoint*> first;  // [job] a point of its scenario
  std::map<std::string, std::size_t> job_of;
  for (const ServedPoint& point : points) {
    if (point.reasons.empty() && job_of.emplace(key_of(point.assignments), keys.size()).second) {
      keys.push_back(key_of(point.assignments));
      first.push_back(&point);
    }
  }
  const JobStore store(folder, kServedStore, served_manifest(request), control.overwrite);
  JobRunner<ServedRun> runner(keys,
                              {&store, [](const ServedRun& run) { return store_text(kServedFormat, run); },
                               [](const std::string& text) { return read_stored<ServedRun>(text, kServedFormat); }});
  const std::vector<std::size_t> left = runner.left();
  if (control.on_start) {
    control.on_start(left.size(), keys.size() - left.size());
  }
  const JobControl jobs{control.stop, [&](std::size_t) { control.on_run ? control.on_run() : void(); }};
  PlanCache plans;
  try {
    runner.run(left, jobs, [&](std::size_t job, const Abandoned&) {
      return run_served_point(request, first[job]->assignments, control.stop, plans);
    });
  } catch (const StudyInterrupted&) {
    return false;
  }
  const std::vector<ServedRun> runs = runner.take();
  for (ServedPoint& point : points) {
    if (point.reasons.empty()) {
      point.run = runs[job_of.at(key_of(point.assignments))];
    }
  }
  return true;
}

}  // namespace epsim::app
