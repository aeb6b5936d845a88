// The tables of a goodput study: goodput.csv and curve.csv.
#include <utility>

#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

constexpr double kMilli = 1e3;

double count(std::int64_t n) { return static_cast<double>(n); }
double flag(bool yes) { return yes ? 1 : 0; }

// The first policy's, aligned as `search` is.
const GoodputSearch& first_beside(const GoodputStudy& study, const GoodputSearch& search, bool aligned) {
  return (aligned ? study.aligned : study.searches).at(static_cast<std::size_t>(search.seed_index));
}

// A cell with its column.
struct NamedCell {
  ResultColumn column;
  Cell cell;
};

// All rows of a table have the columns of the first.
void add_row(ResultTable& table, std::vector<NamedCell> row) {
  std::vector<Cell> cells;
  for (NamedCell& named : row) {
    if (table.rows.empty()) {
      table.columns.push_back(std::move(named.column));
    }
    cells.push_back(std::move(named.cell));
  }
  table.rows.push_back(std::move(cells));
}

// With branches, what tells rows of one policy apart stands last.
void add_search_row(ResultTable& table, const GoodputStudy& study, const GoodputSearch& s, bool aligned,
                    std::vector<NamedCell> figures) {
  std::vector<NamedCell> row{{{"policy", true}, s.policy}, {{"seed"}, std::to_string(s.seed)}};
  row.insert(row.end(), figures.begin(), figures.end());
  row.insert(row.end(),
             {{{"kv_lost_to_copies_share"}, s.kv_lost_share}, {{"kv_tokens_per_rank"}, count(s.kv_tokens_per_rank)}});
  if (study.options.branches) {
    row.push_back({{"aligned"}, flag(aligned)});
  }
  add_row(table, std::move(row));
}

}  // namespace

ResultTable goodput_table(const GoodputStudy& study) {
  const GoodputOptions& options = study.options;
  ResultTable out{"knees", {}, {}};
  for (const auto& [search, aligned] : all_searches(study)) {
    const GoodputSearch& s = *search;
    const GoodputSearch& first = first_beside(study, s, aligned);
    if (options.slo.any()) {
      add_search_row(out, study, s, aligned,
                     {{{"slo_requests_per_s"}, s.slo.rate},
                      {{"slo_ratio"}, ratio(s.slo.rate, first.slo.rate)},
                      {{"slo_low_requests_per_s"}, s.slo.low},
                      {{"slo_high_requests_per_s"}, s.slo.high},
                      {{"slo_limit", true}, s.slo.limit},
                      {{"slo_holds"}, flag(s.slo.holds)}});
      continue;
    }
    for (const double k : values_of_k(options)) {
      const Knee& knee = knee_at(s, options, k);
      add_search_row(out, study, s, aligned,
                     {{{"k"}, k},
                      {{"knee_requests_per_s"}, knee.rate},
                      {{"knee_ratio"}, ratio(knee.rate, knee_at(first, options, k).rate)},
                      {{"knee_ttft_mean_ms"}, knee.ttft_s * kMilli},
                      {{"knee_limit", true}, std::string(name_of(knee.limit))},
                      {{"knee_bracket_share"}, knee.bracket_share},
                      {{"knee_searched"}, flag(k == options.k)},
                      {{"knee_interpolated"}, flag(knee.interpolated)},
                      {{"knee_steady"}, flag(knee.steady)},
                      {{"idle_ttft_mean_ms"}, s.idle_ttft_s * kMilli},
                      {{"saturation_requests_per_s"}, s.saturation},
                      {{"saturation_ratio"}, ratio(s.saturation, first.saturation)}});
    }
  }
  return out;
}

ResultTable curve_table(const GoodputStudy& study) {
  const Slo& slo = study.options.slo;
  ResultTable out{"curve", {}, {}};
  for (const auto& [search, aligned] : all_searches(study)) {
    for (const std::vector<LoadPoint>* probes : {&search->curve, &search->from_backlog}) {
      for (const LoadPoint& p : *probes) {
        std::vector<NamedCell> row{{{"policy", true}, search->policy},
                                   {{"seed"}, std::to_string(search->seed)},
                                   {{"offered_requests_per_s"}, p.offered},
                                   {{"offered_requests"}, count(p.requests)},
                                   {{"measured_offered_requests_per_s"}, p.measured_offered},
                                   {{"measured_completed_requests_per_s"}, p.completed},
                                   {{"measured_requests"}, count(p.measured_requests)},
                                   {{"measured_ttft_mean_ms"}, ms_of(p.ttft_s, &Summary::mean)},
                                   {{"measured_ttft_p99_ms"}, ms_of(p.ttft_s, &Summary::p99)},
                                   {{"ttft_over_idle"}, ratio(p.ttft_s.mean, search->idle_ttft_s)},
                                   {{"measured_tpot_mean_ms"}, ms_of(p.tpot_s, &Summary::mean)},
                                   {{"measured_tpot_p99_ms"}, ms_of(p.tpot_s, &Summary::p99)},
                                   {{"measured_e2e_mean_ms"}, ms_of(p.e2e_s, &Summary::mean)},
                                   {{"in_system_requests"}, p.concurrency},
                                   {{"attainment_share"}, slo.per_request() ? p.slo.attainment : kUndefined},
                                   {{"slo_holds"}, slo.any() ? flag(p.slo.holds) : kUndefined},
                                   {{"stable"}, flag(p.stable)},
                                   {{"enough_requests"}, flag(p.enough_requests)},
                                   {{"steps"}, count(p.steps)},
                                   {{"fingerprint", true}, p.fingerprint}};
        if (study.options.branches) {
          row.insert(row.end(), {{{"aligned"}, flag(aligned)}, {{"backlog_requests"}, count(p.backlog)}});
        }
        add_row(out, std::move(row));
      }
    }
  }
  return out;
}

}  // namespace epsim
