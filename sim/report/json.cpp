#include "sim/report/json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "sim/core/mapped.h"
#include "sim/report/gain_split.h"
#include "sim/report/ranking.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of insertion; writes NaN as null

constexpr int kSummaryFormat = 1;  // raised when a key changes its meaning or goes away

std::string document_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json value_of(const RunSummary& run, const Metric& m) {
  const double number = run.numbers[m.index];
  switch (m.form) {
    case Form::kText:
      return run.texts[m.index];
    case Form::kFlag:
      return number == 1;
    case Form::kCount:
    case Form::kIndex:
      return std::isfinite(number) ? Json(std::llround(number)) : Json(nullptr);
    default:
      return number;
  }
}

// Objects begin as such: where a null turns into one and there is no memory for it, nlohmann's destructor follows a null pointer.
Json section_of(const RunSummary& run, const MetricSection& section) {
  Json out = Json::object();
  for (const Metric* m : metrics_in(run, section)) {
    out[m->name] = value_of(run, *m);
  }
  return out.empty() ? Json(nullptr) : out;
}

Json step_kinds_of(const RunSummary& run) {
  Json out = Json::array();
  for (const StepKindFigures& f : run.step_kinds) {
    Json& row = out.emplace_back(Json{{"pool", f.pool},
                                      {"step_kind", kStepKindNames[static_cast<std::size_t>(f.kind)]},
                                      {"steps", f.steps},
                                      {"step_mean_ms", f.mean_ms},
                                      {"step_time_s", f.time_s},
                                      {"step_time_share", f.share}});
    for (std::size_t p = 0; p < f.part_s.size(); ++p) {
      row[fmt::format("{}_s", kLayerPartNames[p])] = f.part_s[p];
    }
    row["straggler_s"] = f.straggler_s;
  }
  return out;
}

Json instances_of(const RunSummary& run) {
  return mapped(run.instances, [](const InstanceFigures& i) {
    return Json{
        {"instance_role", i.role}, {"steps", i.steps}, {"step_time_s", i.step_time_s}, {"busy_share", i.busy_share}};
  });
}

Json memory_of(std::span<const MemoryItem> items) {
  return mapped(items, [](const MemoryItem& item) {
    return Json{{"memory_item", item.name}, {"memory_gib", to_gib(item.size)}};
  });
}

Json changes_of(const RunSummary& first, const RunSummary& run) {
  Json out = Json::object();
  for (const Metric* m : changing_metrics()) {
    out[m->key.change] = change(*m, first, run);
  }
  return out;
}

Json interval_of(const Estimate& e) { return std::isfinite(e.half_width) ? Json{e.low(), e.high()} : Json(nullptr); }

Json over_seeds_of(const Comparison& runs, std::size_t policy) {
  Json out = Json::object();
  for (const Metric* m : compared_metrics()) {
    const Estimate own = over_seeds(runs, policy, *m), apart = difference(runs, policy, *m);
    out[m->name] = {{"mean", own.mean},
                    {"interval95", interval_of(own)},
                    {"by_seed", by_seed(runs, policy, *m)},
                    {"difference", {{"mean", apart.mean}, {"interval95", interval_of(apart)}}}};
  }
  return out;
}

// Null where every policy serves what is offered.
Json overload_of(const Comparison& runs) {
  const std::optional<Overload> o = overload(runs);
  if (!o) {
    return nullptr;
  }
  return {{"overloaded_policies", o->policies},
          {"offered_requests_per_s", o->offered_requests_per_s},
          {"most_served_requests_per_s", o->most_served_requests_per_s},
          {"rate_to_try_requests_per_s", o->rate_to_try_requests_per_s},
          {"text", o->text}};
}

// What stands between the sections: the lists, each after the section that it belongs to.
void put_lists_after(Json& out, std::string_view section, const RunSummary& run) {
  if (section == "step") {
    out["step_kinds"] = step_kinds_of(run);
  } else if (section == "kv") {
    out["instances"] = instances_of(run);
  } else if (section == "time_by_origin") {
    out["carried_over"] = run.carried_over;
    out["warnings"] = run.warnings;
    out["memory"] = memory_of(run.memory);
    if (!run.prefill_memory.empty()) {
      out["prefill_memory"] = memory_of(run.prefill_memory);
    }
  }
}

// All sections, or those that a comparison has too.
void put_figures(Json& out, const RunSummary& run, bool in_comparison) {
  out["policy"] = run.label;
  for (const MetricSection& section : metric_sections()) {
    if (in_comparison && !section.in_comparison) {
      continue;
    }
    if (section.name.empty()) {
      out.update(section_of(run, section));
    } else {
      out[std::string(section.name)] = section_of(run, section);
    }
    put_lists_after(out, section.name, run);
  }
}

}  // namespace

Json document_of(int format, const RunInfo& info) {
  const auto file_json = [](const InputFile& file) {
    return Json{{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}};
  };
  return {{"format", format},
          {"epsim_version", info.version},
          {"scenario", info.scenario},
          {"seed", info.seed},
          {"inputs", mapped(info.inputs, file_json)}};
}

std::string summary_json(const RunSummary& run, const RunInfo& info) {
  Json out = document_of(kSummaryFormat, info);
  put_figures(out, run, false);
  return document_text(out);
}

std::string comparison_json(const Comparison& runs, const RunInfo& info) {
  Json out = document_of(kSummaryFormat, info);
  out["seeds"] = runs.seeds.size();
  out["same_requests"] = runs.same_requests;
  out["ranking_rule"] = ranking_rule(runs);
  out["compared_with"] = runs.by_policy.empty() ? Json(nullptr) : Json(runs.first_seed(0).label);
  out["overload"] = overload_of(runs);
  out["runs"] = Json::array();
  int rank = 0;
  for (const std::size_t i : rank_policies(runs)) {
    Json row = Json::object();
    row["rank"] = ++rank;
    row["variant"] = is_gain_variant(runs.first_seed(i).label);
    row["bound"] = is_bound(runs, i);
    put_figures(row, runs.first_seed(i), true);
    row["change"] = changes_of(runs.first_seed(0), runs.first_seed(i));
    row["over_seeds"] = over_seeds_of(runs, i);
    out["runs"].push_back(std::move(row));
  }
  if (const std::vector<GainSplit> splits = gain_splits(runs); !splits.empty()) {
    out["gain_split"] = gain_split_json(splits);
  }
  out["conclusions"] = conclusions(runs);
  return document_text(out);
}

}  // namespace epsim
