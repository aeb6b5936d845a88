// goodput.csv and curve.csv.
#include "sim/report/csv_table.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

constexpr double kMilli = 1e3;

void write_probe(CsvTable& csv, const GoodputSearch& search, const Probe& p, const Slo& slo) {
  csv.text(search.policy).integer(static_cast<std::int64_t>(search.seed)).number(p.offered).integer(p.requests);
  csv.number(p.measured_offered).number(p.completed).integer(p.measured_requests);
  csv.number(p.ttft_s.mean * kMilli).number(p.ttft_s.p99 * kMilli).number(ratio(p.ttft_s.mean, search.idle_ttft_s));
  csv.number(p.tpot_s.mean * kMilli).number(p.tpot_s.p99 * kMilli).number(p.e2e_s.mean * kMilli);
  csv.number(p.concurrency).number(slo.per_request() ? p.slo.attainment : kUndefined);
  csv.number(slo.any() ? (p.slo.holds ? 1 : 0) : kUndefined);
  csv.integer(p.stable ? 1 : 0).integer(p.enough_requests ? 1 : 0).integer(p.steps).text(p.fingerprint);
  csv.end_row();
}

void write_slo_csv(std::ostream& out, const GoodputStudy& study) {
  CsvTable csv(
      out, {"policy", "seed", "slo_requests_per_s", "slo_ratio", "slo_low_requests_per_s", "slo_high_requests_per_s",
            "slo_limit", "slo_holds", "kv_lost_to_copies_share", "kv_tokens_per_rank"});
  for (const GoodputSearch& s : study.searches) {
    csv.text(s.policy).integer(static_cast<std::int64_t>(s.seed)).number(s.slo.rate);
    csv.number(ratio(s.slo.rate, search_of(study, 0, s.seed_index).slo.rate)).number(s.slo.low).number(s.slo.high);
    csv.text(s.slo.limit).integer(s.slo.holds ? 1 : 0).number(s.kv_lost_share).integer(s.kv_tokens_per_rank);
    csv.end_row();
  }
}

}  // namespace

void write_goodput_csv(std::ostream& out, const GoodputStudy& study) {
  const GoodputOptions& options = study.options;
  if (options.slo.any()) {
    write_slo_csv(out, study);
    return;
  }
  CsvTable csv(out, {"policy", "seed", "k", "knee_requests_per_s", "knee_ratio", "knee_ttft_mean_ms", "knee_limit",
                     "knee_bracket_share", "knee_searched", "knee_interpolated", "knee_steady", "idle_ttft_mean_ms",
                     "saturation_requests_per_s", "saturation_ratio", "kv_lost_to_copies_share", "kv_tokens_per_rank"});
  for (const GoodputSearch& s : study.searches) {
    const GoodputSearch& first = search_of(study, 0, s.seed_index);
    for (const double k : values_of_k(options)) {
      const Knee& knee = knee_at(s, options, k);
      csv.text(s.policy).integer(static_cast<std::int64_t>(s.seed)).number(k).number(knee.rate);
      csv.number(ratio(knee.rate, knee_at(first, options, k).rate)).number(knee.ttft_s * kMilli);
      csv.text(name_of(knee.limit)).number(knee.bracket_share).integer(k == options.k ? 1 : 0);
      csv.integer(knee.interpolated ? 1 : 0).integer(knee.steady ? 1 : 0).number(s.idle_ttft_s * kMilli);
      csv.number(s.saturation).number(ratio(s.saturation, first.saturation));
      csv.number(s.kv_lost_share).integer(s.kv_tokens_per_rank);
      csv.end_row();
    }
  }
}

void write_curve_csv(std::ostream& out, const GoodputStudy& study) {
  CsvTable csv(out, {"policy",
                     "seed",
                     "offered_requests_per_s",
                     "offered_requests",
                     "measured_offered_requests_per_s",
                     "measured_completed_requests_per_s",
                     "measured_requests",
                     "measured_ttft_mean_ms",
                     "measured_ttft_p99_ms",
                     "ttft_over_idle",
                     "measured_tpot_mean_ms",
                     "measured_tpot_p99_ms",
                     "measured_e2e_mean_ms",
                     "in_system_requests",
                     "attainment_share",
                     "slo_holds",
                     "stable",
                     "enough_requests",
                     "steps",
                     "fingerprint"});
  for (const GoodputSearch& search : study.searches) {
    for (const Probe& probe : search.curve) {
      write_probe(csv, search, probe, study.options.slo);
    }
  }
}

}  // namespace epsim
