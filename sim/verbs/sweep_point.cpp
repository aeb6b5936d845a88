#include "sim/verbs/sweep_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "sim/cluster/run_policy.h"
#include "sim/core/fingerprint.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/summary.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/store_json.h"
#include "sim/study/study_manifest.h"
#include "traces/format/csv.h"

namespace epsim {

constexpr int kPointFormat = 3;  // of a point's file

EPSIM_STORED(InputFile, name, bytes, hash);
EPSIM_STORED(ResultColumn, name, text);
EPSIM_STORED(ResultTable, name, columns, rows);
EPSIM_STORED(SweepPoint, index, error, inputs, tables);

std::optional<SweepPoint> stored_point(const std::string& text) { return read_stored<SweepPoint>(text, kPointFormat); }

std::string stored_text(const SweepPoint& point) { return store_text(kPointFormat, point); }

std::string label_of(const SweepPoint& point) {
  Fingerprint hash;
  for (const InputFile& file : point.inputs) {
    hash.add(std::string_view(file.name));
    hash.add(std::string_view(file.hash));
  }
  for (const ResultTable& table : point.tables) {
    hash.add(std::string_view(table.name));
    for (const ResultColumn& column : table.columns) {
      hash.add(std::string_view(column.name));
      hash.add(static_cast<std::uint64_t>(column.text));
    }
  }
  return fmt::format("{}-{}", point.error.empty() ? "ok" : kFailedLabel, hash.hex());
}

void UnchangedInputs::check(const SweepPoint& point) {
  for (const InputFile& input : point.inputs) {
    auto known = std::ranges::find(seen_, input.name, &InputFile::name);
    if (known == seen_.end()) {
      seen_.push_back(describe_file(input.name));
      known = seen_.end() - 1;
    }
    refuse_if(known->hash != input.hash, {input.name, 0, ""},
              fmt::format("the file has changed since point {} of this sweep read it. Name "
                          "another folder, or add --overwrite to start over.",
                          point.index));
  }
}

namespace {

std::size_t policies_of(const SweepRequest& request) { return std::max<std::size_t>(1, request.policies.size()); }

std::string policy_at(const SweepRequest& request, std::size_t index) {
  return request.policies.empty() ? "" : request.policies[index % policies_of(request)];
}

std::vector<ResultTable> tables_of_run(const Scenario& scenario, const std::atomic<bool>* stop, PlanCache* plans) {
  RunControl control;
  control.stop = stop;
  const PreparedRun prepared = prepare_run(scenario, scenario.policies.front(), plans);
  return {metric_table("results", summarize(whole_run(run_prepared(scenario, prepared, scenario.requests, control))))};
}

// What a search of one policy has no use for: ratios to another, and what the point's own columns say.
constexpr std::string_view kDropped[] = {"policy", "seed", "knee_ratio", "saturation_ratio", "slo_ratio"};

std::vector<ResultTable> tables_of_search(const Scenario& scenario, const GoodputOptions& given,
                                          const std::atomic<bool>* stop, PlanCache* plans,
                                          const OnServing& on_serving) {
  RunControl control;
  control.stop = stop;
  const std::vector<Scenario> by_seed{scenario};
  const GoodputOptions options = by_protocol(given, scenario);
  GoodputStudy study;
  study.options = options;
  study.policies = {scenario.policies.front().label};
  study.searches = search_all(targets_of(by_seed, control, plans, on_serving), options, {});
  ResultTable results = policy_table(study, 0);
  if (!options.slo.any()) {  // of the one search; a policy has one under each seed
    results.add_words({"knee_limit"});
    results.rows.front().emplace_back(std::string(name_of(study.searches.front().knee.limit)));
  }
  return {std::move(results), without_columns(goodput_table(study), kDropped),
          without_columns(curve_table(study), kDropped)};
}

// The policy as the first combination has it that can be read with it.
std::optional<PolicyChoice> first_choice(const SweepRequest& request, std::size_t policy) {
  for (std::size_t at = policy; at < count_points(request); at += policies_of(request)) {
    try {
      return scenario_at(request, at).policies.front();
    } catch (const InputError&) {  // the run says so
    }
  }
  return std::nullopt;
}

}  // namespace

std::string add_compared(SweepRequest& request, bool split) {
  const bool varied = std::any_of(request.axes.begin(), request.axes.end(),
                                  [](const SweepAxis& axis) { return axis.key.starts_with("policies."); });
  if (request.policies.empty() || (request.policies.size() == 1 && !varied && !split)) {
    return "";
  }
  std::vector<std::string> added = missing_references(request.policies), variants;
  for (std::size_t p = 0; p < request.policies.size(); ++p) {
    const std::optional<PolicyChoice> policy = first_choice(request, p);
    if (policy && policy->system != nullptr) {
      added.clear();
      break;
    }
    if (policy && policy->ceiling == Ceiling::kNone && !is_reference(policy->label)) {
      const std::vector<std::string> own = split_variants(*policy);
      variants.insert(variants.end(), own.begin(), own.end());
    }
  }
  request.added = added.size();
  std::string note = note_on(added);
  request.policies.insert(request.policies.end(), added.begin(), added.end());
  if (split) {
    request.policies.insert(request.policies.end(), variants.begin(), variants.end());
    request.added += variants.size();
  }
  return note;
}

std::vector<std::string> not_for_use(const SweepRequest& request) {
  std::vector<std::string> out;
  for (std::size_t p = 0; p < request.policies.size(); ++p) {
    const std::string& label = request.policies[p];
    const std::optional<PolicyChoice> policy = first_choice(request, p);
    if (as_variant(label) || (policy && !out_of_reach({*policy}).empty())) {
      out.push_back(label);
    }
  }
  return out;
}

std::size_t count_points(const SweepRequest& request) { return combinations(request.axes) * policies_of(request); }

std::size_t first_alike(const SweepRequest& request, std::size_t index) {
  const std::string policy = policy_at(request, index);
  const std::size_t policies = policies_of(request);
  return policy.empty() ? index : first_alike(request.axes, index / policies, policy) * policies + index % policies;
}

Scenario scenario_at(const SweepRequest& request, std::size_t index) {
  Config config = Config::from_file(request.scenario);
  config.set(request.overrides);
  config.set(settings_at(request.axes, index / policies_of(request)), "--vary");
  const std::string policy = policy_at(request, index);
  const auto own = request.own_policies.find(policy);
  if (policy.empty() || own != request.own_policies.end()) {
    Scenario out = read_scenario(config, {});
    if (!policy.empty()) {
      out.policies = {own->second};
    }
    return out;
  }
  return read_scenario(config, {policy});
}

bool names_no_other(const SweepRequest& request, std::size_t index) {
  try {
    const PolicyChoice policy = scenario_at(request, index).policies.front();
    const auto variant = as_variant(policy.label);
    return policy.prefill == nullptr && policy.planned_by == (variant ? variant->first : policy.label);
  } catch (const InputError&) {
    return false;
  }
}

SweepPoint run_point(const SweepRequest& request, std::size_t index, const std::atomic<bool>* stop, PlanCache& plans,
                     const OnServing& on_serving) {
  SweepPoint point;
  point.index = index;
  try {
    const Scenario scenario = scenario_at(request, index);
    point.inputs = mapped(scenario.input_files, describe_file);
    PlanCache* shared = request.own_policies.contains(policy_at(request, index)) ? nullptr : &plans;
    point.tables = request.measure == SweepMeasure::kRun
                       ? tables_of_run(scenario, stop, shared)
                       : tables_of_search(scenario, request.goodput, stop, shared, on_serving);
  } catch (const StudyInterrupted&) {
    throw;
  } catch (const std::exception& e) {
    point.error = e.what();
    point.tables.clear();
  }
  return point;
}

std::vector<ResultColumn> lead_columns(const SweepRequest& request) {
  std::vector<ResultColumn> out{{std::string(kPointColumn), false}};
  for (const SweepAxis& axis : request.axes) {
    const bool numbers = std::all_of(axis.values.begin(), axis.values.end(),
                                     [](const std::string& value) { return parse_number(value).has_value(); });
    out.push_back({axis.key, !numbers});
  }
  if (!request.policies.empty()) {
    out.push_back({"policy", true});
  }
  return out;
}

std::vector<Cell> lead_cells(const SweepRequest& request, const SweepPoint& point) {
  std::vector<Cell> out{static_cast<double>(point.index)};
  for (std::string& value : values_at(request.axes, point.index / policies_of(request))) {
    out.emplace_back(std::move(value));
  }
  if (!request.policies.empty()) {
    out.emplace_back(policy_at(request, point.index));
  }
  return out;
}

}  // namespace epsim
