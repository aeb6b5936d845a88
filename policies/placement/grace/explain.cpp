// What GRACE-MoE's groups and copies were made from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "policies/placement/grace/grace.h"
#include "sim/domain/affinity.h"

namespace epsim {
namespace {

constexpr std::size_t kMostNamed = 12;  // hot experts that are listed one by one

// Affinity kept inside GPUs and spread of sizes for every ratio that was tried.
ExplanationTable ratio_table(const GraceExplanation& why) {
  ExplanationTable out{
      .columns = {{"ratio", "r"}, {"affinity", "inside U"}, {"deviation", "of sizes S"}, {"", "", true}}};
  for (const RatioPoint& point : why.points) {
    out.rows.push_back({fmt::format("{:.2f}", point.ratio), fmt::format("{:.4f}", point.utilisation),
                        fmt::format("{:.3f}", point.deviation), point.ratio == why.ratio ? "chosen" : ""});
  }
  return out;
}

ExplanationTable group_table(const GraceExplanation& why, const LoadWindow& load) {
  ExplanationTable out{.by_layer = true,
                       .columns = {{"experts", "on a GPU"},
                                   {"affinity", "inside U"},
                                   {"heaviest", "GPU"},
                                   {"hot experts", "copied", true},
                                   {"to GPUs", "", true}}};
  for (std::size_t l = 0; l < why.groups.size(); ++l) {
    const auto [least, most] = std::minmax_element(why.groups[l].begin(), why.groups[l].end(),
                                                   [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::span<const double> values = load.affinity()->layer(static_cast<int>(l));
    const AffinityMatrix affinity(load.experts(), {values.begin(), values.end()});
    const GraceCopies& copies = why.copies[l];
    const bool many = copies.experts.size() > kMostNamed;
    out.rows.push_back({fmt::format("{}..{}", least->size(), most->size()),
                        fmt::format("{:.3f}", affinity_utilisation(affinity, why.groups[l])),
                        fmt::format("{}", copies.heaviest),
                        copies.experts.empty() ? "-"
                        : many                 ? fmt::format("{} experts", copies.experts.size())
                                               : fmt::format("{}", fmt::join(copies.experts, " ")),
                        copies.gpus.empty() ? "-" : fmt::format("{}", fmt::join(copies.gpus, " "))});
  }
  return out;
}

}  // namespace

PlanExplanation explain_grace(const GraceExplanation& why, const LoadWindow& load) {
  PlanExplanation out;
  if (!why.points.empty()) {
    out.tables.push_back(ratio_table(why));
  }
  out.tables.push_back(group_table(why, load));
  out.tables.front().title =
      fmt::format("groups by affinity, sizes within {:.0f} % of equal ones inside a node", why.ratio * 100);
  return out;
}

}  // namespace epsim
