#include "sim/reproduce/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/core/check.h"
#include "sim/report/csv_table.h"
#include "sim/reproduce/evaluate.h"

namespace epsim {
namespace {

constexpr std::size_t kTold = 2;  // movements told beside a verdict

PaperEvidence gather_under(const PaperStudy& paper, const InputChange& change, const std::string& prefix,
                           const PaperNeeds& needs, GatherOptions options, const GatherControl& control) {
  options.overrides.insert(options.overrides.end(), change.set.begin(), change.set.end());
  options.more_of = change.set_of;
  GatherControl own = control;
  if (control.on_setup && !change.input.empty()) {
    own.on_setup = [&](const std::string& setup, std::size_t all) {
      control.on_setup(fmt::format("{} with {} {}", setup, change.input, change.change), all);
    };
  }
  own.key_prefix = prefix;
  return gather(paper, needs, options, own);
}

std::vector<ClaimRow> priced_rows(const std::vector<PaperClaim>& claims, const PaperEvidence& evidence,
                                  const GatherOptions& options, const PaperScope& scope,
                                  const std::optional<double>& k) {
  std::vector<ClaimRow> out;
  for (const PaperClaim& claim : claims) {
    for (ClaimRow& row : rows_of(claim, evidence, options, scope, k)) {
      if (row.needs_prices()) {
        out.push_back(std::move(row));
      }
    }
  }
  return out;
}

bool needs_prices(const PaperClaim& claim) {
  return std::any_of(claim.figures.begin(), claim.figures.end(), [](const ClaimFigure& figure) {
    return figure.kind == ClaimKind::kCalibrated || figure.kind == ClaimKind::kTrend;
  });
}

}  // namespace

std::vector<ClaimMovement> movements_of(const PaperStudy& paper, const std::vector<PaperClaim>& claims,
                                        const GatherOptions& options, const GatherControl& control) {
  const PaperScope scope{paper.sensitivity_setups};
  std::vector<PaperClaim> told;
  std::copy_if(claims.begin(), claims.end(), std::back_inserter(told), needs_prices);
  const PaperNeeds needs = needs_of(paper, told, scope);
  if (needs.empty()) {
    return {};
  }
  GatherOptions first_seed = options;
  first_seed.seeds = 1;
  const PaperEvidence before = gather_under(paper, {}, "", needs, first_seed, control);
  const std::vector<ClaimRow> plain = priced_rows(told, before, first_seed, scope, {});
  std::vector<ClaimMovement> out;
  for (std::size_t i = 0; i < paper.changes.size(); ++i) {
    const InputChange& change = paper.changes[i];
    const PaperEvidence after =
        change.k ? before : gather_under(paper, change, fmt::format("sensitivity-{}-", i), needs, first_seed, control);
    const std::vector<ClaimRow> moved = priced_rows(told, after, first_seed, scope, change.k);
    EPSIM_CHECK(moved.size() == plain.size(), "the same claims give the same figures");
    for (std::size_t r = 0; r < plain.size(); ++r) {
      out.push_back({plain[r].id, plain[r].what, change.input, change.change, plain[r].value, moved[r].value});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const ClaimMovement& a, const ClaimMovement& b) {
    return std::tie(a.claim, a.statement) < std::tie(b.claim, b.statement);
  });
  return out;
}

void add_movements(std::vector<ClaimRow>& rows, std::span<const ClaimMovement> movements) {
  const auto size = [](const ClaimMovement& m) { return std::abs(m.after - m.before); };
  for (ClaimRow& row : rows) {
    std::vector<ClaimMovement> mine;
    std::copy_if(movements.begin(), movements.end(), std::back_inserter(mine), [&](const ClaimMovement& m) {
      return m.claim == row.id && m.statement == row.what && std::isfinite(size(m)) && m.after != m.before;
    });
    std::stable_sort(mine.begin(), mine.end(),
                     [&](const ClaimMovement& a, const ClaimMovement& b) { return size(a) > size(b); });
    for (const ClaimMovement& m : mine) {
      const bool told = std::any_of(row.moved_by.begin(), row.moved_by.end(),
                                    [&](const InputMovement& known) { return known.input == m.input; });
      if (!told && row.moved_by.size() < kTold) {  // an input that is changed both ways is told once
        row.moved_by.push_back({m.input, m.change, m.before, m.after});
      }
    }
  }
}

void write_sensitivity_csv(std::ostream& out, std::span<const ClaimMovement> movements) {
  CsvTable csv(out, {"claim", "statement", "input", "input_change", "value_before", "value_after"});
  for (const ClaimMovement& m : movements) {
    csv.text(m.claim).text(m.statement).text(m.input).text(m.change).number(m.before).number(m.after).end_row();
  }
}

}  // namespace epsim
