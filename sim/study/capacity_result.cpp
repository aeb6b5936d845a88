#include "sim/study/capacity_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/core/check.h"

namespace epsim {

std::string name_of(const CapacityDesign& d) {
  std::string out =
      d.role == InstanceRole::kWhole ? "" : std::string(kInstanceRoleNames[static_cast<std::size_t>(d.role)]) + ", ";
  out += fmt::format("{} x {}, attention TP {}{}, {}, {}", d.size, d.node, d.attention_tp,
                     d.ep_size > 0 ? fmt::format(", EP {}", d.ep_size) : "", d.engine, d.dtype);
  for (const std::string& setting : d.stated()) {
    out += ", " + setting;
  }
  return d.policy.empty() ? out : out + ", " + d.policy;
}

std::string_view name_of(CapacityStatus status) {
  constexpr std::string_view kNames[] = {"best", "holds", "fails", "ceiling", "bound", "alone", "does not fit"};
  return kNames[static_cast<std::size_t>(status)];
}

double statistic_of(const LoadPoint& p, const SloTerm& term) {
  const Summary& is = term.metric == LatencyMetric::kTtft   ? p.ttft_s
                      : term.metric == LatencyMetric::kTpot ? p.tpot_s
                                                            : p.e2e_s;
  switch (term.stat) {
    case LatencyStat::kMean:
      return is.mean;
    case LatencyStat::kP50:
      return is.p50;
    case LatencyStat::kP90:
      return is.p90;
    case LatencyStat::kP95:
      return is.p95;
    case LatencyStat::kP99:
      return is.p99;
    case LatencyStat::kEach:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

double strain_of(const LoadPoint& p, const Slo& slo) {
  double out = -std::numeric_limits<double>::infinity();
  for (SloTerm term : slo.terms) {
    term.stat = term.stat == LatencyStat::kEach ? LatencyStat::kP99 : term.stat;
    if (const double value = statistic_of(p, term); value > 0) {
      out = std::max(out, std::log(value / term.bound.count()));
    }
  }
  return out;
}

bool misses_narrowly(const CapacityAnswer& answer, const Slo& slo) {
  const SloScore& score = answer.point.slo;
  const bool ended = answer.refused.empty() && answer.point.e2e_s.mean > 0;
  return ended && !score.holds && (!score.decided || strain_of(answer.point, slo) < std::log1p(kNarrowly));
}

DeploymentShare share_of(std::vector<CapacityPool> pools) {
  int one_in = 0;
  for (const CapacityPool& pool : pools) {
    one_in = std::gcd(one_in, pool.instances);
  }
  EPSIM_CHECK(one_in > 0, "a deployment has instances");
  for (CapacityPool& pool : pools) {
    pool.instances /= one_in;
  }
  return {std::move(pools), one_in};
}

int CapacityOption::nodes() const {
  int out = 0;
  for (const CapacityPool& pool : pools) {
    out += pool.nodes(spare);
  }
  return out;
}

}  // namespace epsim
