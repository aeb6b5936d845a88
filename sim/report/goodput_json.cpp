// goodput.json, and the folder of a study.
#include <nlohmann/json.hpp>
#include <variant>

#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/report/goodput_branches.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

Json slo_of(const Slo& slo) {
  if (!slo.any()) {
    return nullptr;
  }
  const auto term_json = [](const SloTerm& term) {
    return Json{{"metric", name_of(term.metric)}, {"stat", name_of(term.stat)}, {"bound_s", term.bound.count()}};
  };
  return {{"text", name_of(slo)},
          {"terms", mapped(slo.terms, term_json)},
          {"attainment", slo.per_request() ? Json(slo.attainment) : Json(nullptr)}};
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
          {"same_requests", study.same_requests},
          {"alignment", study.options.branches ? Json(study.alignment) : Json(nullptr)}};
}

// A figure of a policy: the same name in goodput.json and in the columns of a sweep.
struct PolicyFigure {
  std::string name;
  std::variant<Estimate, double, std::int64_t, bool, std::string> value;
  bool of_knee = false;  // in the section `knee`
};

std::vector<PolicyFigure> knee_figures(const KneeFigures& knee) {
  return {{"k", knee.k, true},
          {"knee_requests_per_s", knee.rate, true},
          {"knee_ratio", knee.ratio, true},
          {"knee_ttft_mean_ms", knee.ttft_ms, true},
          {"knee_searched", knee.searched, true},
          {"knee_steady", knee.steady, true},
          {"knee_reached", knee.reached, true}};
}

std::vector<PolicyFigure> figures_of(const PolicyGoodput& policy, bool slo) {
  std::vector<PolicyFigure> out{{"plain_name", plain_name(policy.policy)},
                                {"kv_lost_to_copies_share", policy.kv_lost_share},
                                {"kv_tokens_per_rank", policy.kv_tokens_per_rank}};
  std::vector<PolicyFigure> more;
  if (slo) {
    more = {{"slo_requests_per_s", policy.rate},
            {"slo_ratio", policy.ratio},
            {"slo_limit", policy.slo.limit},
            {"slo_held_seeds", policy.slo.held_seeds},
            {"slo_attainment_share", policy.slo.attainment},
            {"slo_ttft_mean_ms", policy.slo.ttft_mean_ms},
            {"slo_ttft_p99_ms", policy.slo.ttft_p99_ms},
            {"slo_tpot_mean_ms", policy.slo.tpot_mean_ms},
            {"slo_tpot_p99_ms", policy.slo.tpot_p99_ms},
            {"slo_in_system_requests", policy.concurrency}};
  } else {
    more = knee_figures(policy.searched());
    more.insert(more.end(), {{"saturation_requests_per_s", policy.saturation},
                             {"saturation_ratio", policy.saturation_ratio},
                             {"idle_ttft_mean_ms", policy.idle_ttft_ms},
                             {"knee_tpot_mean_ms", policy.tpot_ms},
                             {"knee_in_system_requests", policy.concurrency}});
  }
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

template <class Value>
Json json_of(const Value& value) {
  return value;
}

// Over seeds its mean.
struct Cells {
  Cell operator()(const Estimate& e) const { return e.mean; }
  Cell operator()(const std::string& text) const { return text; }
  template <class Number>
  Cell operator()(Number number) const {
    return static_cast<double>(number);
  }
};

Json json_of(const PolicyFigure& figure) {
  return std::visit([](const auto& value) { return json_of(value); }, figure.value);
}

// A rate from both starts.
Json start_of(const StartFigures& f) {
  return {{"at_knee", f.at_knee},
          {"offered_requests_per_s", json_of(f.rate)},
          {"from_empty",
           {{"completed_requests_per_s", json_of(f.empty_completed)},
            {"ttft_mean_ms", json_of(f.empty_ttft_ms)},
            {"steady", f.empty_steady}}},
          {"after_backlog",
           {{"completed_requests_per_s", json_of(f.backlog_completed)},
            {"ttft_mean_ms", json_of(f.backlog_ttft_ms)},
            {"steady", f.backlog_steady}}},
          {"start_matters_seeds", f.apart_seeds},
          {"told_seeds", f.told_seeds},
          {"seeds", f.seeds}};
}

void add_branch_json(const GoodputStudy& study, std::size_t policy, Json& out) {
  if (!study.options.branches) {
    return;
  }
  out["starts"] = mapped(start_figures(study, policy), start_of);
  if (!study.aligned.empty()) {
    const AlignedFigures aligned = aligned_figures(study, policy);
    out["aligned_requests_per_s"] = json_of(aligned.rate);
    out["aligned_gain"] = json_of(aligned.gain);
    out["aligned_ratio"] = json_of(aligned.ratio);
  }
}

Json json_of(const std::vector<PolicyFigure>& figures) {
  Json out;
  for (const PolicyFigure& figure : figures) {
    out[figure.name] = json_of(figure);
  }
  return out;
}

Json policy_of(const PolicyGoodput& policy, bool slo) {
  Json out{{"policy", policy.policy}};
  for (const PolicyFigure& figure : figures_of(policy, slo)) {
    (figure.of_knee ? out["knee"] : out)[figure.name] = json_of(figure);
  }
  if (!slo) {
    out["sensitivity"] = mapped(policy.knees, [](const KneeFigures& knee) { return json_of(knee_figures(knee)); });
  }
  return out;
}

// In seconds; null over no request.
Json quantiles_of(const Summary& s) {
  const auto known = [&](double value) { return s.count > 0 ? value : kUndefined; };
  return {{"mean", known(s.mean)},
          {"p50", known(s.p50)},
          {"p90", known(s.p90)},
          {"p95", known(s.p95)},
          {"p99", known(s.p99)}};
}

Json probe_of(const LoadPoint& p, const Slo& slo) {
  return {{"offered_requests_per_s", p.offered},
          {"offered_requests", p.requests},
          {"measured_requests", p.measured_requests},
          {"attainment", slo.per_request() ? Json(p.slo.attainment) : Json(nullptr)},
          {"slo_holds", slo.any() ? Json(p.slo.holds) : Json(nullptr)},
          {"ttft", quantiles_of(p.ttft_s)},
          {"tpot", quantiles_of(p.tpot_s)},
          {"e2e", quantiles_of(p.e2e_s)},
          {"in_system_requests", p.concurrency},
          {"stable", p.stable},
          {"extrapolated_share", p.extrapolated}};
}

Json search_json(const GoodputSearch& s, const GoodputStudy& study, bool aligned) {
  const Slo& slo = study.options.slo;
  Json out{{"policy", s.policy}, {"seed", s.seed}, {"slo", nullptr}, {"curve", Json::array()}};
  if (slo.any()) {
    out["slo"] = {{"holds", s.slo.holds},
                  {"rate", s.slo.rate},
                  {"interval", {s.slo.low, s.slo.high}},
                  {"limit_term", s.slo.limit}};
  }
  for (const LoadPoint& p : s.curve) {
    out["curve"].push_back(probe_of(p, slo));
  }
  if (study.options.branches) {
    out["aligned"] = aligned;
    out["after_backlog"] = Json::array();
  }
  for (const LoadPoint& p : s.from_backlog) {
    out["after_backlog"].push_back(probe_of(p, slo));
    out["after_backlog"].back()["backlog_requests"] = p.backlog;
  }
  return out;
}

Json verdict_of(const GoodputStudy& study) {
  const RateVerdict verdict = goodput_verdict(study);
  return {{"policy", study.policies[verdict.chosen]}, {"difference", verdict.difference}, {"text", verdict.text}};
}

}  // namespace

std::string goodput_json(const GoodputStudy& study, const RunInfo& info) {
  Json out = document_of(kGoodputFormat, info);
  out["method"] = method_of(study);
  out["slo"] = slo_of(study.options.slo);
  out["compared_with"] = study.policies.empty() ? Json(nullptr) : Json(study.policies[0]);
  out["policies"] = Json::array();
  for (const PolicyGoodput& policy : summarize(study)) {
    out["policies"].push_back(policy_of(policy, study.options.slo.any()));
    add_branch_json(study, out["policies"].size() - 1, out["policies"].back());
  }
  out["verdict"] = study.policies.empty() ? Json(nullptr) : verdict_of(study);
  if (const std::vector<GainSplit> splits = gain_splits(study); !splits.empty()) {
    out["gain_split"] = gain_split_json(splits);
  }
  out["conclusions"] = goodput_conclusions(study);
  out["searches"] = Json::array();
  for (const auto& [search, aligned] : all_searches(study)) {
    out["searches"].push_back(search_json(*search, study, aligned));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

ResultTable policy_table(const GoodputStudy& study, std::size_t policy) {
  ResultTable out{"results", {}, {{}}};
  for (const PolicyFigure& figure : figures_of(summarize(study)[policy], study.options.slo.any())) {
    if (!figure.name.ends_with("_ratio")) {
      out.columns.push_back({figure.name, std::holds_alternative<std::string>(figure.value)});
      out.rows.front().push_back(std::visit(Cells{}, figure.value));
    }
  }
  return out;
}

void write_goodput(const std::filesystem::path& folder, const GoodputStudy& study, const RunInfo& info) {
  write_file_atomically(folder / "resolved.yaml", info.resolved_yaml);
  write_file_atomically(folder / "goodput.json", goodput_json(study, info));
  write_file_atomically(folder / "goodput.csv", table_csv(goodput_table(study)));
  write_file_atomically(folder / "curve.csv", table_csv(curve_table(study)));
}

}  // namespace epsim
