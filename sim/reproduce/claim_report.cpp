// How claims are shown and written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/format.h"
#include "sim/report/text_table.h"
#include "sim/reproduce/claim.h"

namespace epsim {
namespace {

constexpr std::size_t kNoteColumns = 118;
constexpr int kFormat = 1;  // raised when a key changes its meaning or goes away

// "1.31 +- 0.02", "9.7 s"
std::string ours(const ClaimRow& row) {
  return rounded(row.value) + (row.half_width ? " +- " + rounded(*row.half_width) : "") +
         (row.unit.empty() ? "" : " " + row.unit);
}

std::string tolerance_of(const ClaimRow& row) {
  if (row.low == row.high) {
    return "exactly " + rounded(row.low);
  }
  if (!std::isfinite(row.low) || !std::isfinite(row.high)) {
    return std::isfinite(row.high) ? "at most " + rounded(row.high) : "at least " + rounded(row.low);
  }
  return fmt::format("{} to {}", rounded(row.low), rounded(row.high));
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

std::size_t count_of(std::span<const ClaimRow> rows, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const ClaimRow& row) { return row.verdict() == verdict; }));
}

// "moved most by speed of the links, 20 % less (1.31 to 1.22), ..."; empty when it was not asked for.
std::string movements_of(const ClaimRow& row) {
  std::string out;
  for (const InputMovement& m : row.moved_by) {
    out += fmt::format("{}{}, {} ({} to {})", out.empty() ? "moved most by " : "; ", m.input, m.change,
                       rounded(m.before), rounded(m.after));
  }
  return out;
}

}  // namespace

std::string claims_table(std::span<const ClaimRow> rows, bool notes) {
  const bool intervals = std::ranges::any_of(rows, [](const ClaimRow& row) { return row.half_width.has_value(); });
  TextTable table;
  table.add_column({"claim"}, Align::kLeft);
  table.add_column({""}, Align::kLeft);
  table.add_column({"paper"}, Align::kLeft);
  table.add_column(intervals ? std::vector<std::string>{"ours", "95 %"} : std::vector<std::string>{"ours"},
                   Align::kLeft);
  table.add_column({"tolerance"}, Align::kLeft);
  table.add_column({"verdict"}, Align::kLeft);
  std::string below;
  for (const ClaimRow& row : rows) {
    table.add_row(
        {row.id, row.what, row.paper, ours(row), tolerance_of(row),
         std::string(kVerdictNames[static_cast<int>(row.verdict())]) + (row.must_hold ? "" : " (not required)")});
    std::vector<std::string> words;
    for (std::string text :
         {row.verdict() == Verdict::kReproduced ? std::string() : row.reason(), row.note, movements_of(row)}) {
      if (!text.empty()) {
        words.push_back(std::move(text));
      }
    }
    if (notes && !words.empty()) {
      below += wrapped(fmt::format("{} {}: {}", row.id, row.what, fmt::join(words, "; ")), kNoteColumns, 4) + "\n";
    }
  }
  return table.render() + (below.empty() ? "" : "\n" + below) +
         fmt::format("\n{} reproduced, {} in order only, {} missed\n", count_of(rows, Verdict::kReproduced),
                     count_of(rows, Verdict::kOrderOnly), count_of(rows, Verdict::kMissed));
}

std::string elsewhere_text(std::span<const ClaimElsewhere> claims) {
  std::string out;
  for (const ClaimElsewhere& claim : claims) {
    const std::string why = claim.held_by.empty() ? "not checked: " + claim.open : "held by " + claim.held_by;
    out += wrapped(fmt::format("{} {}: {}", claim.id, claim.statement, why), kNoteColumns, 4) + "\n";
  }
  return out;
}

std::string claims_json(std::span<const ClaimRow> rows, const ClaimsInfo& info) {
  nlohmann::ordered_json out;
  out["format"] = kFormat;
  out["epsim_version"] = info.version;
  out["study"] = info.study;
  out["setting"] = info.setting;
  out["claims_reproduced"] = count_of(rows, Verdict::kReproduced);
  out["claims_order_only"] = count_of(rows, Verdict::kOrderOnly);
  out["claims_missed"] = count_of(rows, Verdict::kMissed);
  out["all_hold"] = all_hold(rows);
  out["claims_not_run"] = info.not_run;
  out["claims_elsewhere"] = nlohmann::ordered_json::array();
  for (const ClaimElsewhere& claim : info.elsewhere) {
    out["claims_elsewhere"].push_back({{"claim", claim.id},
                                       {"statement", claim.statement},
                                       {"paper_place", claim.place},
                                       {"held_by", claim.held_by},
                                       {"open_reason", claim.open}});
  }
  out["claims"] = nlohmann::ordered_json::array();
  for (const ClaimRow& row : rows) {
    nlohmann::ordered_json claim;
    claim["claim"] = row.id;
    claim["statement"] = row.what;
    claim["claim_kind"] = kClaimKindNames[static_cast<int>(row.kind)];
    claim["paper_value"] = row.paper;
    claim["paper_place"] = row.place;
    claim["value"] = number(row.value);
    claim["half_width"] = row.half_width ? number(*row.half_width) : nlohmann::ordered_json();
    claim["unit"] = row.unit;
    claim["tolerance_low"] = number(row.low);
    claim["tolerance_high"] = number(row.high);
    claim["verdict"] = kVerdictNames[static_cast<int>(row.verdict())];
    claim["reason"] = row.reason();
    claim["must_hold"] = row.must_hold;
    claim["note"] = row.note;
    claim["moved_most_by"] = nlohmann::ordered_json::array();
    for (const InputMovement& m : row.moved_by) {
      claim["moved_most_by"].push_back({{"input", m.input},
                                        {"input_change", m.change},
                                        {"value_before", number(m.before)},
                                        {"value_after", number(m.after)}});
    }
    out["claims"].push_back(std::move(claim));
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace epsim
