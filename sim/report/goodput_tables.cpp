// What the terminal shows at the end of a goodput study.
#include <fmt/format.h>

#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/report/goodput_branches.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/tables.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::size_t kPlainColumns = 20;

std::string label_of(const std::string& policy) { return shortened(printable(policy), kLabelColumns); }

// Ratios to two digits more than the interval needs would only pretend.
std::string ratio_text(const Estimate& e) { return fixed(e.mean, 3); }

TextTable slo_table(const GoodputStudy& study, const std::vector<PolicyGoodput>& policies) {
  TextTable table;
  table.add_column({"", "", "policy"}, Align::kLeft);
  table.add_columns({{"meets", "the SLO up to", "req/s"}, {"", "95 %", "+-"}, {"against", "the first", "%"}});
  table.add_column({"", "95 %", "+-"});
  table.add_column({"", "", "limited by"}, Align::kLeft);
  if (study.options.slo.per_request()) {
    table.add_column({"attain-", "ment", "%"});
  }
  for (const char* name : {"TTFT", "TPOT"}) {
    table.add_columns({{name, "mean", "ms"}, {name, "p99", "ms"}});
  }
  table.add_columns({{"in", "system", "requests"}, {"KV", "lost", "%"}});
  for (const PolicyGoodput& p : policies) {
    std::vector<std::string> row = {shortened(printable(plain_name(p.policy)), kPlainColumns),
                                    p.rate.mean > 0 ? rounded(p.rate.mean) : "never",
                                    rounded(p.rate.half_width),
                                    signed_percent(p.ratio.mean - 1),
                                    percent(p.ratio.half_width),
                                    p.slo.limit};
    if (study.options.slo.per_request()) {
      row.push_back(percent(p.slo.attainment.mean));
    }
    for (const Estimate& e :
         {p.slo.ttft_mean_ms, p.slo.ttft_p99_ms, p.slo.tpot_mean_ms, p.slo.tpot_p99_ms, p.concurrency}) {
      row.push_back(rounded(e.mean));
    }
    row.push_back(percent(p.kv_lost_share));
    table.add_row(std::move(row));
  }
  return table;
}

TextTable knee_table(const std::vector<PolicyGoodput>& policies) {
  TextTable table;
  table.add_column({"", "", "policy"}, Align::kLeft);
  table.add_columns({{"knee", "", "req/s"}, {"", "95 %", "+-"}, {"against", label_of(policies[0].policy), "times"}});
  table.add_columns({{"", "95 %", "+-"}, {"satu-", "ration", "req/s"}, {"idle", "TTFT", "ms"}});
  table.add_columns({{"TTFT", "at knee", "ms"}, {"TPOT", "at knee", "ms"}, {"in", "system", "requests"}});
  table.add_column({"KV", "lost", "%"});
  for (const PolicyGoodput& p : policies) {
    const KneeFigures& knee = p.searched();
    std::vector<std::string> row = {
        label_of(p.policy),           rounded(knee.rate.mean),         rounded(knee.rate.half_width),
        ratio_text(knee.ratio),       fixed(knee.ratio.half_width, 3), rounded(p.saturation.mean),
        rounded(p.idle_ttft_ms.mean), rounded(knee.ttft_ms.mean),      rounded(p.tpot_ms.mean),
        rounded(p.concurrency.mean),  percent(p.kv_lost_share)};
    table.add_row(std::move(row));
  }
  return table;
}

// The first policy's knees in requests/s, the others' as ratios to them.
TextTable sensitivity_table(const std::vector<PolicyGoodput>& policies) {
  TextTable table;
  table.add_column({"k"}, Align::kLeft);
  for (const KneeFigures& knee : policies[0].knees) {
    table.add_column({fmt::format("{:g}{}", knee.k, knee.searched ? "" : " (interp.)")});
  }
  for (const PolicyGoodput& p : policies) {
    std::vector<std::string> row = {label_of(p.policy)};
    for (const KneeFigures& knee : p.knees) {
      const std::string value =
          &p == policies.data() ? rounded(knee.rate.mean) : fmt::format("x {}", ratio_text(knee.ratio));
      row.push_back(fmt::format("{}{}{}", knee.reached ? "" : ">", value, knee.steady ? "" : "*"));
    }
    table.add_row(std::move(row));
  }
  return table;
}

std::string paragraph(const std::string& text) { return wrapped(text, kColumns, 0) + "\n"; }

std::string knee_tables(const GoodputStudy& study, const std::vector<PolicyGoodput>& policies) {
  return knee_table(policies).render() + paragraph(knee_rule(study.options)) +
         paragraph(measured_part_rule(study.options)) +
         "\nknee against k: the first policy in req/s, the others relative to it\n" +
         sensitivity_table(policies).render() +
         paragraph(
             "> = the knee is above the probed rates; * = a rate next to the knee was not steady, or had "
             "too few requests.");
}

// Of the policy that has most of it, at the rate that counts. "" where it is little.
std::string extrapolation_note(const GoodputStudy& study) {
  constexpr double kLittle = 0.05;
  const GoodputSearch* most = nullptr;
  for (const GoodputSearch& search : study.searches) {
    most = most == nullptr || search.best.extrapolated > most->best.extrapolated ? &search : most;
  }
  return most == nullptr || most->best.extrapolated <= kLittle
             ? ""
             : fmt::format("Prices: {:.0f} % of the steps' time is extrapolated ({}).", 100 * most->best.extrapolated,
                           plain_name(most->policy));
}

}  // namespace

std::string goodput_tables(const GoodputStudy& study) {
  const std::vector<PolicyGoodput> policies = summarize(study);
  std::string out = study.options.slo.any() ? slo_table(study, policies).render() + paragraph(slo_rule(study.options)) +
                                                  paragraph(measured_part_rule(study.options))
                                            : knee_tables(study, policies);
  out += paragraph(fmt::format("Means over {}; ratios are taken seed by seed, on the same requests.",
                               count_of(study.seeds, "seed")));
  if (const std::string note = extrapolation_note(study); !note.empty()) {
    out += paragraph(note);
  }
  out += branch_tables(study);
  if (const std::string split = gain_split_table(gain_splits(study)); !split.empty()) {
    out += "\n" + split;
  }
  for (const std::string& line : goodput_conclusions(study)) {
    out += fmt::format("\n{}", paragraph(line));
  }
  return fmt::format("{}\n{}", out, paragraph(goodput_verdict(study).text));
}

}  // namespace epsim
