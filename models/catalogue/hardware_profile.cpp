#include "models/catalogue/hardware_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/profile/model_ops.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

// Arithmetic that leads back to a measured point may miss it by a few ulps.
bool same(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::fabs(b); }

double blend(double a, double b, double share) { return a + (b - a) * share; }

}  // namespace

Efficiency EfficiencyCurve::at(double rows) const {
  EPSIM_CHECK(rows > 0 && !points.empty(), "an efficiency is asked for no rows, or of an empty curve");
  const Point& first = points.front();
  const Point& last = points.back();
  if (rows < first.rows && !same(rows, first.rows)) {
    return {first.fraction * rows / first.rows, weaker(origin, Origin::kExtrapolated)};
  }
  if (rows > last.rows && !same(rows, last.rows)) {
    return {last.fraction, weaker(origin, Origin::kExtrapolated)};
  }
  const auto above =
      std::lower_bound(points.begin(), points.end(), rows, [](const Point& p, double r) { return p.rows < r; });
  const Point& right = above == points.end() ? last : *above;
  if (same(rows, right.rows) || above == points.begin()) {
    return {right.fraction, origin};
  }
  const Point& left = *(above - 1);
  if (same(rows, left.rows)) {
    return {left.fraction, origin};
  }
  const double share = std::log(rows / left.rows) / std::log(right.rows / left.rows);
  return {std::exp(blend(std::log(left.fraction), std::log(right.fraction), share)),
          weaker(origin, Origin::kInterpolated)};
}

Efficiency ComputeProfile::grouped(int hidden, int intermediate, double rows_per_expert) const {
  EPSIM_CHECK(!grouped_gemm.empty(), "a compute profile has no grouped GEMM");
  const auto distance = [&](const GroupedGemmCurve& g) {
    return std::fabs(std::log(static_cast<double>(g.hidden) * g.intermediate) -
                     std::log(static_cast<double>(hidden) * intermediate));
  };
  const auto nearest = std::min_element(grouped_gemm.begin(), grouped_gemm.end(),
                                        [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  const double first = nearest->curve.points.front().rows;
  Efficiency found = nearest->curve.at(std::max(rows_per_expert, first));
  if (rows_per_expert < first) {
    found.origin = weaker(found.origin, Origin::kExtrapolated);
  }
  if (nearest->hidden != hidden || nearest->intermediate != intermediate) {
    found.origin = weaker(found.origin, Origin::kExtrapolated);
  }
  return found;
}

Price CollectiveCurve::time(Seconds wire) const {
  EPSIM_CHECK(points.size() >= 2 && wire.count() >= 0,
              "a collective is priced on an empty curve, or for a negative time");
  const Point& last = points.back();
  if (wire > last.wire && !same(wire.count(), last.wire.count())) {
    return {last.time * (wire / last.wire), weaker(origin, Origin::kExtrapolated)};
  }
  std::size_t right = 1;
  while (right + 1 < points.size() && points[right].wire < wire) {
    ++right;
  }
  const Point& a = points[right - 1];
  const Point& b = points[right];
  if (same(wire.count(), b.wire.count())) {
    return {b.time, origin};
  }
  const Origin ends = right == 1 ? weaker(origin, base_origin) : origin;
  return {a.time + (b.time - a.time) * ((wire - a.wire) / (b.wire - a.wire)), weaker(ends, Origin::kInterpolated)};
}

void LinkProfile::use_kernels_of(std::string_view engine) {
  const auto of = [](const CollectiveCurve& curve, std::string_view who) {
    return curve.engines.empty() || std::find(curve.engines.begin(), curve.engines.end(), who) != curve.engines.end();
  };
  const auto first = std::find_if(curves.begin(), curves.end(), [](const auto& c) { return !c.engines.empty(); });
  const bool named =
      std::any_of(first, curves.end(), [&](const auto& c) { return !c.engines.empty() && of(c, engine); });
  const std::string whose(named || first == curves.end() ? engine : first->engines.front());
  std::erase_if(curves, [&](const auto& c) { return !of(c, whose); });
}

Price LinkProfile::base(int gpus) const {
  return {Seconds(base_latency.value) + per_message * std::max(0, gpus - gpus_per_node), base_latency.origin};
}

Price LinkProfile::time(CollectiveKind kind, int gpus, Seconds wire) const {
  const CollectiveCurve* below = nullptr;  // most GPUs that are not more than asked for
  const CollectiveCurve* above = nullptr;  // fewest GPUs that are not less
  for (const CollectiveCurve& curve : curves) {
    if (curve.kind != kind) {
      continue;
    }
    if (curve.gpus <= gpus && (below == nullptr || curve.gpus > below->gpus)) {
      below = &curve;
    }
    if (curve.gpus >= gpus && (above == nullptr || curve.gpus < above->gpus)) {
      above = &curve;
    }
  }
  if (below == nullptr && above == nullptr) {
    if (kind == CollectiveKind::kCustomAllReduce) {
      return time(CollectiveKind::kAllReduce, gpus, wire);
    }
    EPSIM_CHECK(kind != CollectiveKind::kAllToAll, "link profile '" + name + "' has no all-to-all");
    const bool ring = kind == CollectiveKind::kReduceScatter;
    const Price stand_in = time(ring ? CollectiveKind::kAllGather : CollectiveKind::kAllToAll, gpus, wire);
    return {stand_in.time, weaker(stand_in.origin, Origin::kExtrapolated)};
  }
  if (below == above) {
    return below->time(wire);
  }
  if (below == nullptr || above == nullptr) {
    const Price nearest = (below == nullptr ? above : below)->time(wire);
    return {nearest.time, weaker(nearest.origin, Origin::kExtrapolated)};
  }
  const Price few = below->time(wire), many = above->time(wire);
  const double share =
      std::log(static_cast<double>(gpus) / below->gpus) / std::log(static_cast<double>(above->gpus) / below->gpus);
  return {few.time + (many.time - few.time) * share, weaker(weaker(few.origin, many.origin), Origin::kInterpolated)};
}

namespace {

// Of the operators that the model asks for, by the profile that they are from: "mla_prefill from h200-trtllm".
std::string stand_in_text(const ComputeProfile& compute, const MoeSpec& model) {
  std::string out, from;
  for (const StandIn& s : compute.stand_ins) {
    if (asks_for(model, s.op, *compute.fitted)) {
      out += out.empty() ? "" : s.profile == from ? ", " : fmt::format(" from {}; ", from);
      out += s.op;
      from = s.profile;
    }
  }
  return out.empty() ? "" : fmt::format("not in the engine's own tables: {} from {}", out, from);
}

}  // namespace

std::vector<std::string> carried_over(const ComputeProfile& compute, const NetworkProfile& network,
                                      const MoeSpec& model, bool several_nodes) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& what, const std::string& reason) {
    if (!reason.empty()) {
      out.push_back(what + ": " + reason);
    }
  };
  const auto add_link = [&](const std::string& what, const LinkProfile& link) {
    add(what + " (" + link.name + ")", link.carried_over);
    add(what + " (" + link.name + ")", link.borrowed);
  };
  add("compute (" + compute.name + ")", compute.carried_over);
  add("kernels (" + compute.name + ")", stand_in_text(compute, model));
  add_link("links inside a node", network.intra);
  if (several_nodes) {
    add_link("links between nodes", network.inter);
  }
  return out;
}

}  // namespace epsim
