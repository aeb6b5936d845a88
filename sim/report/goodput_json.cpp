// goodput.json, and the folder of a study.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // raised when a key changes its meaning or goes away

Json info_of(const RunInfo& info) {
  Json out{{"format", kFormat}, {"epsim_version", info.version}, {"scenario", info.scenario}, {"seed", info.seed}};
  out["inputs"] = Json::array();
  for (const InputFile& file : info.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
  return out;
}

Json bound_of(const std::optional<Seconds>& bound) { return bound ? Json(to_ms(*bound)) : Json(nullptr); }

Json method_of(const GoodputStudy& study) {
  const GoodputOptions& o = study.options;
  return {{"knee_rule", knee_rule(o)},
          {"measured_part_rule", measured_part_rule(o)},
          {"k", o.k},
          {"knee_tolerance_share", o.tolerance},
          {"min_completed_share", o.min_completed},
          {"warmup_share", o.warmup_share},
          {"drain_share", o.drain_share},
          {"max_drift_share", o.max_drift},
          {"min_requests_per_in_system", o.min_requests_ratio},
          {"slo_ttft_ms", bound_of(o.slo.ttft)},
          {"slo_itl_ms", bound_of(o.slo.itl)},
          {"slo_e2e_ms", bound_of(o.slo.e2e)},
          {"seeds", study.seeds},
          {"same_requests", study.same_requests}};
}

Json estimate_of(const Estimate& e) { return {{"mean", e.mean}, {"half_width", e.half_width}}; }

Json knee_of(const KneeFigures& knee) {
  return {{"k", knee.k},
          {"knee_requests_per_s", estimate_of(knee.rate)},
          {"knee_ratio", estimate_of(knee.ratio)},
          {"knee_ttft_mean_ms", estimate_of(knee.ttft_ms)},
          {"knee_searched", knee.searched},
          {"knee_steady", knee.steady},
          {"knee_reached", knee.reached}};
}

Json policy_of(const PolicyGoodput& policy) {
  Json out{{"policy", policy.policy}};
  out["knee"] = knee_of(policy.searched());
  out["saturation_requests_per_s"] = estimate_of(policy.saturation);
  out["saturation_ratio"] = estimate_of(policy.saturation_ratio);
  out["idle_ttft_mean_ms"] = estimate_of(policy.idle_ttft_ms);
  out["knee_tpot_mean_ms"] = estimate_of(policy.tpot_ms);
  out["knee_in_system_requests"] = estimate_of(policy.concurrency);
  out["slo_goodput_requests_per_s"] = estimate_of(policy.slo);
  out["slo_goodput_ratio"] = estimate_of(policy.slo_ratio);
  out["kv_lost_to_copies_share"] = policy.kv_lost_share;
  out["kv_tokens_per_rank"] = policy.kv_tokens_per_rank;
  out["sensitivity"] = Json::array();
  for (const KneeFigures& knee : policy.knees) {
    out["sensitivity"].push_back(knee_of(knee));
  }
  return out;
}

template <class Write>
void write_csv(const std::filesystem::path& file, const GoodputStudy& study, Write write) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  write(out, study);
  out.close();
  if (!out) {
    throw RunFailed(fmt::format("{}: cannot be written; is the disk full, or the folder read-only?", file.string()));
  }
}

}  // namespace

std::string goodput_json(const GoodputStudy& study, const RunInfo& info) {
  Json out = info_of(info);
  out["method"] = method_of(study);
  out["compared_with"] = study.policies.empty() ? Json(nullptr) : Json(study.policies[0]);
  out["policies"] = Json::array();
  for (const PolicyGoodput& policy : summarize(study)) {
    out["policies"].push_back(policy_of(policy));
  }
  out["conclusions"] = goodput_conclusions(study);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_goodput(const std::filesystem::path& folder, const GoodputStudy& study, const RunInfo& info) {
  write_file_atomically(folder / "resolved.yaml", info.resolved_yaml);
  write_file_atomically(folder / "goodput.json", goodput_json(study, info));
  write_csv(folder / "goodput.csv", study, write_goodput_csv);
  write_csv(folder / "curve.csv", study, write_curve_csv);
}

}  // namespace epsim
