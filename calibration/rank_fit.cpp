#include "calibration/rank_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "calibration/correction_fit.h"
#include "calibration/least_squares.h"

namespace epsim {
namespace {

// What is above the price alone: with factors below 1, which own rows and remote ones that grow alike would allow, a hot
// rank's rows would be too cheap.
std::array<double, kRankTerms.size()> fit_rank_terms(std::span<const RankPoint> points, double column_s) {
  std::vector<double> a, b;
  for (const RankPoint& p : points) {
    const double many = weight_of_many(p.each), alone = p.alone.count();
    a.insert(a.end(), {alone * (1 - many) / p.time_s, alone * many / p.time_s,
                       1e-6 * share_of_launch(p.remote) / p.time_s, p.remote * column_s / p.time_s});
    b.push_back(1 - alone / p.time_s);
  }
  const std::vector<double> found = non_negative_least_squares(a, b, kRankTerms.size());
  return {1 + found[0], 1 + found[1], found[2], found[3]};
}

}  // namespace

void fit_ranks(FittedOp& op, std::span<const RankPoint> points) {
  if (points.size() < kFewestToCorrect) {
    return;
  }
  std::vector<double> a, b;
  std::map<std::pair<double, double>, std::vector<RankPoint>> by_shape;
  for (const RankPoint& p : points) {
    if (!p.held_out) {
      by_shape[{p.hidden, p.intermediate}].push_back(p);
      for (const double term : remote_terms(p.remote, p.hidden, p.intermediate, op.rates)) {
        a.push_back(term / p.time_s);
      }
      b.push_back(1 - p.alone.count() / p.time_s);
    }
  }
  op.remote_rows.emplace();
  std::ranges::copy(non_negative_least_squares(a, b, kRemoteTerms.size()), op.remote_rows->coefficients.begin());
  for (ShapeCorrection& shape : op.shapes) {
    const std::vector<RankPoint>& own = by_shape[{shape.hidden, shape.intermediate}];
    if (own.size() >= kFewestToCorrect) {
      shape.ranks = fit_rank_terms(own, kActivationBytes / op.rates.bytes_per_s);
    }
  }
  std::vector<double> errors;
  for (const RankPoint& p : points) {
    if (p.held_out) {
      const RankTerms terms = op.rank_terms(p.hidden, p.intermediate);
      errors.push_back(std::fabs(terms.time(p.alone, p.each, p.remote).count() / p.time_s - 1));
    }
  }
  op.remote_rows->held_out = summarise_errors(std::move(errors));
}

}  // namespace epsim
