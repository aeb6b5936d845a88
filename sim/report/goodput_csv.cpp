// The tables of a goodput study: goodput.csv and curve.csv.
#include <initializer_list>
#include <utility>

#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

constexpr double kMilli = 1e3;

double count(std::int64_t n) { return static_cast<double>(n); }
double flag(bool yes) { return yes ? 1 : 0; }

// Every search with whether its prompts are aligned: those of the policies, then the aligned ones.
std::vector<std::pair<const GoodputSearch*, bool>> all_searches(const GoodputStudy& study) {
  std::vector<std::pair<const GoodputSearch*, bool>> out;
  for (const GoodputSearch& s : study.searches) {
    out.emplace_back(&s, false);
  }
  for (const GoodputSearch& s : study.aligned) {
    out.emplace_back(&s, true);
  }
  return out;
}

// The first policy's, aligned as `search` is.
const GoodputSearch& first_beside(const GoodputStudy& study, const GoodputSearch& search, bool aligned) {
  return (aligned ? study.aligned : study.searches).at(static_cast<std::size_t>(search.seed_index));
}

std::vector<Cell> probe_row(const GoodputSearch& search, const LoadPoint& p, const Slo& slo) {
  return {search.policy,
          std::to_string(search.seed),
          p.offered,
          count(p.requests),
          p.measured_offered,
          p.completed,
          count(p.measured_requests),
          ms_of(p.ttft_s, &Summary::mean),
          ms_of(p.ttft_s, &Summary::p99),
          ratio(p.ttft_s.mean, search.idle_ttft_s),
          ms_of(p.tpot_s, &Summary::mean),
          ms_of(p.tpot_s, &Summary::p99),
          ms_of(p.e2e_s, &Summary::mean),
          p.concurrency,
          slo.per_request() ? p.slo.attainment : kUndefined,
          slo.any() ? flag(p.slo.holds) : kUndefined,
          flag(p.stable),
          flag(p.enough_requests),
          count(p.steps),
          p.fingerprint};
}

// With branches: what tells rows of one policy apart, in the row that was added last.
void add_branch_cells(ResultTable& table, const GoodputStudy& study, std::initializer_list<double> cells) {
  if (study.options.branches) {
    table.rows.back().insert(table.rows.back().end(), cells.begin(), cells.end());
  }
}
void add_branch_columns(ResultTable& table, const GoodputStudy& study, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (study.options.branches) {
      table.columns.push_back({name});
    }
  }
}

ResultTable slo_table(const GoodputStudy& study) {
  ResultTable out{"knees",
                  {{"policy", true},
                   {"seed"},
                   {"slo_requests_per_s"},
                   {"slo_ratio"},
                   {"slo_low_requests_per_s"},
                   {"slo_high_requests_per_s"},
                   {"slo_limit", true},
                   {"slo_holds"},
                   {"kv_lost_to_copies_share"},
                   {"kv_tokens_per_rank"}},
                  {}};
  add_branch_columns(out, study, {"aligned"});
  for (const auto& [search, aligned] : all_searches(study)) {
    const GoodputSearch& s = *search;
    const double first = first_beside(study, s, aligned).slo.rate;
    out.rows.push_back({s.policy, std::to_string(s.seed), s.slo.rate, ratio(s.slo.rate, first), s.slo.low, s.slo.high,
                        s.slo.limit, flag(s.slo.holds), s.kv_lost_share, count(s.kv_tokens_per_rank)});
    add_branch_cells(out, study, {flag(aligned)});
  }
  return out;
}

}  // namespace

ResultTable goodput_table(const GoodputStudy& study) {
  const GoodputOptions& options = study.options;
  if (options.slo.any()) {
    return slo_table(study);
  }
  ResultTable out{"knees",
                  {{"policy", true},
                   {"seed"},
                   {"k"},
                   {"knee_requests_per_s"},
                   {"knee_ratio"},
                   {"knee_ttft_mean_ms"},
                   {"knee_limit", true},
                   {"knee_bracket_share"},
                   {"knee_searched"},
                   {"knee_interpolated"},
                   {"knee_steady"},
                   {"idle_ttft_mean_ms"},
                   {"saturation_requests_per_s"},
                   {"saturation_ratio"},
                   {"kv_lost_to_copies_share"},
                   {"kv_tokens_per_rank"}},
                  {}};
  add_branch_columns(out, study, {"aligned"});
  for (const auto& [search, aligned] : all_searches(study)) {
    const GoodputSearch& s = *search;
    const GoodputSearch& first = first_beside(study, s, aligned);
    for (const double k : values_of_k(options)) {
      const Knee& knee = knee_at(s, options, k);
      out.rows.push_back({s.policy, std::to_string(s.seed), k, knee.rate,
                          ratio(knee.rate, knee_at(first, options, k).rate), knee.ttft_s * kMilli,
                          std::string(name_of(knee.limit)), knee.bracket_share, flag(k == options.k),
                          flag(knee.interpolated), flag(knee.steady), s.idle_ttft_s * kMilli, s.saturation,
                          ratio(s.saturation, first.saturation), s.kv_lost_share, count(s.kv_tokens_per_rank)});
      add_branch_cells(out, study, {flag(aligned)});
    }
  }
  return out;
}

ResultTable curve_table(const GoodputStudy& study) {
  ResultTable out{"curve",
                  {{"policy", true},
                   {"seed"},
                   {"offered_requests_per_s"},
                   {"offered_requests"},
                   {"measured_offered_requests_per_s"},
                   {"measured_completed_requests_per_s"},
                   {"measured_requests"},
                   {"measured_ttft_mean_ms"},
                   {"measured_ttft_p99_ms"},
                   {"ttft_over_idle"},
                   {"measured_tpot_mean_ms"},
                   {"measured_tpot_p99_ms"},
                   {"measured_e2e_mean_ms"},
                   {"in_system_requests"},
                   {"attainment_share"},
                   {"slo_holds"},
                   {"stable"},
                   {"enough_requests"},
                   {"steps"},
                   {"fingerprint", true}},
                  {}};
  add_branch_columns(out, study, {"aligned", "backlog_requests"});
  for (const auto& [search, aligned] : all_searches(study)) {
    for (const std::vector<LoadPoint>* probes : {&search->curve, &search->from_backlog}) {
      for (const LoadPoint& probe : *probes) {
        out.rows.push_back(probe_row(*search, probe, study.options.slo));
        add_branch_cells(out, study, {flag(aligned), count(probe.backlog)});
      }
    }
  }
  return out;
}

}  // namespace epsim
