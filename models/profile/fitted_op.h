// One operator of one machine as a fit leaves it: physical terms with coefficients, times a smooth correction.
//
//   time = sum over terms of coefficient x term, times exp(correction at the place)
//   Models : see op_shapes.h.
//   Source : calibration/profiles/<machine>/fit.yaml, which names the measurements and the error on points that the fit
//            has not seen.
//   Shapes : kernels are tuned shape by shape, and change at whole tiles. A grouped GEMM has, on top, a correction for
//            each measured size of its experts, a dense GEMM one over its rows alone.
//   Valid  : a price is interpolated where measured points surround it in all features together: inside the box of
//            features over all points, and in a cell of the correction's grid at each corner of which a measured point
//            is near, in one of the cells around the corner. Elsewhere the physical terms go on and the correction is
//            what smoothness makes of it: extrapolated. So are experts of a size that was not measured.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/profile/log_grid.h"
#include "models/profile/op_shapes.h"
#include "sim/core/config.h"
#include "sim/domain/cost.h"

namespace epsim {

// Relative errors |predicted / measured - 1| over points.
struct ErrorSummary {
  std::int64_t points = 0;
  double median = 0, p95 = 0, worst = 0;
};

ErrorSummary read_error_summary(ConfigReader in);

// What a rank of expert parallelism takes where all tokens are on every GPU: its own experts' time, times a factor of at least 1
// (kernels are tuned for a number of experts), and for assignments to other GPUs' experts a launch and so much each.
struct RankTerms {
  double own_few = 1, own_many = 1;  // the factor with few rows an expert, and with many
  Seconds launch{}, row{};
  // `alone`: the price of the rank's own rows, `each` of them to an expert; `remote`: assignments.
  Seconds time(Seconds alone, double each, double remote) const;
};
// How much own_many weighs with `each` rows to an expert; own_few has the rest.
double weight_of_many(double each);
// As a fit has them: the factors, the launch in microseconds, and what an assignment moves in columns of bf16.
inline constexpr std::array<std::string_view, 4> kRankTerms = {"own_few", "own_many", "launch", "columns"};

// What one size of experts adds to the correction, over the op's first and last axis (rows per group, skew), and its ranks'
// terms where enough of these were measured.
struct ShapeCorrection {
  double hidden = 0, intermediate = 0;
  LogGrid correction;
  std::optional<std::array<double, kRankTerms.size()>> ranks = {};
};

// The terms of ranks with experts of other sizes, and the error of all on the fifth of the points of ranks that was held out.
struct RemoteRows {
  std::array<double, kRemoteTerms.size()> coefficients{};
  ErrorSummary held_out;
};

struct FittedOp {
  std::string op;  // "grouped_gemm", "dense_gemm_fp8"
  OpKind kind = OpKind::kDenseGemm;
  std::string dtype, kernel, source;
  OpRates rates;
  std::array<double, kMaxTerms> coefficients{};
  LogGrid correction;
  std::vector<ShapeCorrection> shapes;                 // grouped GEMM only
  std::optional<RemoteRows> remote_rows;               // grouped GEMM only; none: its table has no such ranks
  std::optional<LogGrid> steps;                        // dense GEMM only: a further correction over m alone
  std::array<std::array<double, 2>, kMaxAxes> hull{};  // least and greatest log2 feature of a measured point, per axis
  std::vector<bool> supported;  // [knot of the correction] a measured point is in a cell around it
  // On the fifth of the points that was held out; for a grouped GEMM of even groups, and of uneven ones.
  ErrorSummary held_out;
  std::optional<ErrorSummary> held_out_skewed;
  // On experts of a size, and of a hidden size, none of whose points the fit has seen; grouped GEMM only.
  std::optional<ErrorSummary> held_out_width, held_out_model;
  // Of repeated rows of the source from each other: no model is better than that.
  std::optional<ErrorSummary> noise;

  // `parameters` as in op_shapes.h, all positive.
  Price price(std::span<const double> parameters) const;
  bool inside(const OpPlace& place) const;
  // Of a grouped GEMM; null for a size that was not measured.
  const ShapeCorrection* shape_of(double hidden, double intermediate) const;
  RankTerms rank_terms(double hidden, double intermediate) const;
};

// Where a place stands in a ShapeCorrection's grid.
inline std::array<double, 2> shape_axes(const OpPlace& place) { return {place.axes.front(), place.axes.back()}; }

// The operators of one machine.
struct FittedProfile {
  std::string machine, gpu, licence, notes;
  std::vector<FittedOp> ops;
  const FittedOp* find(std::string_view op) const;  // null when there is none
  // Takes over what it lacks; each operator keeps its own source. Returns the names of those. Whether prompts that fill an
  // fp8 cache are multiplied in fp8 is the engine's choice (vLLM's are not), so another engine does not lend that one.
  std::vector<std::string> complete_from(const FittedProfile& other);
};

// Reads a fit.yaml. InputError with file, line and key for another version, an unknown operator, one given twice, a
// grid whose values do not match its knots, coefficients that are negative or all zero.
FittedProfile read_fitted_profile(const Config& document);

}  // namespace epsim
