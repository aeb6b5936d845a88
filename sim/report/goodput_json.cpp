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

constexpr int kFormat = 2;  // raised when a key changes its meaning or goes away

Json info_of(const RunInfo& info) {
  Json out{{"format", kFormat}, {"epsim_version", info.version}, {"scenario", info.scenario}, {"seed", info.seed}};
  out["inputs"] = Json::array();
  for (const InputFile& file : info.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
  return out;
}

Json slo_of(const Slo& slo) {
  if (!slo.any()) {
    return nullptr;
  }
  Json out{{"text", name_of(slo)}, {"terms", Json::array()}};
  for (const SloTerm& term : slo.terms) {
    out["terms"].push_back(
        {{"metric", name_of(term.metric)}, {"stat", name_of(term.stat)}, {"bound_s", term.bound.count()}});
  }
  out["attainment"] = slo.per_request() ? Json(slo.attainment) : Json(nullptr);
  return out;
}

Json method_of(const GoodputStudy& study) {
  const GoodputOptions& o = study.options;
  return {{"rate_rule", o.slo.any() ? slo_rule(o) : knee_rule(o)},
          {"measured_part_rule", measured_part_rule(o)},
          {"k", o.k},
          {"knee_tolerance_share", o.tolerance},
          {"min_completed_share", o.min_completed},
          {"warmup_share", o.warmup_share},
          {"drain_share", o.drain_share},
          {"max_drift_share", o.max_drift},
          {"min_requests_per_in_system", o.min_requests_ratio},
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

void add_slo_figures(const PolicyGoodput& policy, Json& out) {
  out["slo_requests_per_s"] = estimate_of(policy.rate);
  out["slo_ratio"] = estimate_of(policy.ratio);
  out["slo_limit"] = policy.slo.limit;
  out["slo_held_seeds"] = policy.slo.held_seeds;
  out["slo_attainment_share"] = estimate_of(policy.slo.attainment);
  out["slo_ttft_mean_ms"] = estimate_of(policy.slo.ttft_mean_ms);
  out["slo_ttft_p99_ms"] = estimate_of(policy.slo.ttft_p99_ms);
  out["slo_tpot_mean_ms"] = estimate_of(policy.slo.tpot_mean_ms);
  out["slo_tpot_p99_ms"] = estimate_of(policy.slo.tpot_p99_ms);
  out["slo_in_system_requests"] = estimate_of(policy.concurrency);
}

void add_knee_figures(const PolicyGoodput& policy, Json& out) {
  out["knee"] = knee_of(policy.searched());
  out["saturation_requests_per_s"] = estimate_of(policy.saturation);
  out["saturation_ratio"] = estimate_of(policy.saturation_ratio);
  out["idle_ttft_mean_ms"] = estimate_of(policy.idle_ttft_ms);
  out["knee_tpot_mean_ms"] = estimate_of(policy.tpot_ms);
  out["knee_in_system_requests"] = estimate_of(policy.concurrency);
  out["sensitivity"] = Json::array();
  for (const KneeFigures& knee : policy.knees) {
    out["sensitivity"].push_back(knee_of(knee));
  }
}

Json policy_of(const PolicyGoodput& policy, bool slo) {
  Json out{{"policy", policy.policy}, {"plain_name", plain_name(policy.policy)}};
  out["kv_lost_to_copies_share"] = policy.kv_lost_share;
  out["kv_tokens_per_rank"] = policy.kv_tokens_per_rank;
  (slo ? add_slo_figures : add_knee_figures)(policy, out);
  return out;
}

// In seconds.
Json quantiles_of(const Summary& s) {
  return {{"mean", s.mean}, {"p50", s.p50}, {"p90", s.p90}, {"p95", s.p95}, {"p99", s.p99}};
}

Json probe_of(const Probe& p, const Slo& slo) {
  return {{"offered_requests_per_s", p.offered},
          {"offered_requests", p.requests},
          {"measured_requests", p.measured_requests},
          {"attainment", slo.per_request() ? Json(p.slo.attainment) : Json(nullptr)},
          {"slo_holds", slo.any() ? Json(p.slo.holds) : Json(nullptr)},
          {"ttft", quantiles_of(p.ttft_s)},
          {"tpot", quantiles_of(p.tpot_s)},
          {"e2e", quantiles_of(p.e2e_s)},
          {"in_system_requests", p.concurrency},
          {"stable", p.stable}};
}

Json search_json(const GoodputSearch& s, const Slo& slo) {
  Json out{{"policy", s.policy}, {"seed", s.seed}, {"slo", nullptr}, {"curve", Json::array()}};
  if (slo.any()) {
    out["slo"] = {{"holds", s.slo.holds},
                  {"rate", s.slo.rate},
                  {"interval", {s.slo.low, s.slo.high}},
                  {"limit_term", s.slo.limit}};
  }
  for (const Probe& p : s.curve) {
    out["curve"].push_back(probe_of(p, slo));
  }
  return out;
}

Json verdict_of(const GoodputStudy& study) {
  const RateVerdict verdict = goodput_verdict(study);
  return {{"policy", study.policies[verdict.chosen]}, {"difference", verdict.difference}, {"text", verdict.text}};
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
  out["slo"] = slo_of(study.options.slo);
  out["compared_with"] = study.policies.empty() ? Json(nullptr) : Json(study.policies[0]);
  out["policies"] = Json::array();
  for (const PolicyGoodput& policy : summarize(study)) {
    out["policies"].push_back(policy_of(policy, study.options.slo.any()));
  }
  out["verdict"] = study.policies.empty() ? Json(nullptr) : verdict_of(study);
  out["conclusions"] = goodput_conclusions(study);
  out["searches"] = Json::array();
  for (const GoodputSearch& search : study.searches) {
    out["searches"].push_back(search_json(search, study.options.slo));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_goodput(const std::filesystem::path& folder, const GoodputStudy& study, const RunInfo& info) {
  write_file_atomically(folder / "resolved.yaml", info.resolved_yaml);
  write_file_atomically(folder / "goodput.json", goodput_json(study, info));
  write_csv(folder / "goodput.csv", study, write_goodput_csv);
  write_csv(folder / "curve.csv", study, write_curve_csv);
}

}  // namespace epsim
