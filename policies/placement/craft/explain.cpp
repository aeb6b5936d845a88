// What CRAFT's choice of copies was made from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "policies/placement/craft/craft.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

// Four digits, no "-0.0000".
std::string four_digits(double value) { return fmt::format("{:.4f}", std::abs(value) < 5e-5 ? 0.0 : value); }

// Every factor that was tried.
ExplanationTable factor_table(const CraftExplanation& why) {
  ExplanationTable out{.columns = {{"replication", "factor"}, {"mean gain", "over layers"}, {"", "", true}}};
  for (std::size_t i = 0; i < why.curve.factor.size(); ++i) {
    const bool chosen = why.curve.factor[i] == why.replication_factor;
    out.rows.push_back(
        {fmt::format("{}", why.curve.factor[i]), four_digits(why.curve.gain[i]), chosen ? "chosen" : ""});
  }
  return out;
}

// The gain of every number of copies that was tried, the chosen one in brackets.
ExplanationTable gain_table(const CraftExplanation& why) {
  ExplanationTable out{
      .title = "gain in balancedness by number of extra copies of a layer, replayed on the loads; [chosen]",
      .by_layer = true,
      .columns = {{"chosen", "copies"}, {"balancedness", "without"}, {"", "with"}}};
  for (std::size_t c = 0; c < why.table.counts.size(); ++c) {
    out.columns.push_back({c == 0 ? "gain with" : "", fmt::format("{}", why.table.counts[c])});
  }
  for (std::size_t l = 0; l < why.layer_copies.size(); ++l) {
    std::vector<std::string> cells = {fmt::format("{}", why.layer_copies[l]), fmt::format("{:.4f}", why.table.base[l]),
                                      fmt::format("{:.4f}", why.balancedness[l])};
    for (std::size_t c = 0; c < why.table.counts.size(); ++c) {
      const std::string gain = fmt::format("{:+.3f}", why.table.gain[c][l]);
      cells.push_back(why.table.counts[c] == why.layer_copies[l] ? "[" + gain + "]" : gain);
    }
    out.rows.push_back(std::move(cells));
  }
  return out;
}

std::string list(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ",")); }

}  // namespace

PlanExplanation explain_craft(const CraftExplanation& why, int gpus) {
  PlanExplanation out{.key = "craft"};
  const std::string factor = fmt::format("replication factor {}: {} copies over all layers", why.replication_factor,
                                         why.replication_factor * gpus);
  out.tables.push_back(gain_table(why));
  if (why.curve.factor.empty()) {
    out.tables.front().title = factor + "\n\n" + out.tables.front().title;
  } else {
    out.tables.insert(out.tables.begin(), factor_table(why));
    out.tables.front().title = factor;
  }
  const std::vector<std::string> gains =
      mapped(why.table.gain, [&](const std::vector<double>& by_layer) { return list(by_layer); });
  out.json = fmt::format(
      "{{\n    \"replication_factor\": {},\n    \"factors\": [{}],\n    \"factor_gains\": {},\n"
      "    \"copy_counts\": [{}],\n    \"layer_copies\": [{}],\n    \"base\": {},\n"
      "    \"gains\": [{}]\n  }}",
      why.replication_factor, fmt::join(why.curve.factor, ","), list(why.curve.gain), fmt::join(why.table.counts, ","),
      fmt::join(why.layer_copies, ","), list(why.table.base), fmt::join(gains, ","));
  return out;
}

}  // namespace epsim
