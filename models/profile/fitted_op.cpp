#include "models/profile/fitted_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sim/core/check.h"
#include "sim/core/choice.h"

namespace epsim {
namespace {

constexpr int kProfileVersion = 3;
constexpr std::string_view kPromptsIntoFp8 = "mla_prefill_fp8";

std::optional<ErrorSummary> maybe_errors(ConfigReader& in, const std::string& key) {
  return in.has(key) ? std::optional(read_error_summary(in.section(key))) : std::nullopt;
}

// Corrections are one text of whole thousandths, since a list of numbers takes a YAML reader ten times as long.
std::vector<double> read_corrections(ConfigReader& in, std::size_t size) {
  const auto text = in.required<std::string>("correction");
  std::vector<double> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int thousandths = 0;
    const auto [next, error] = std::from_chars(at, end, thousandths);
    in.check(error == std::errc() && (next == end || *next == ' ') && std::abs(thousandths) < 10000, "correction",
             "a correction is the logarithm of a factor in whole thousandths, below 10000 in size.");
    values.push_back(thousandths / 1000.0);
    at = std::find_if(next, end, [](char c) { return c != ' '; });
  }
  in.check(values.size() == size, "correction",
           fmt::format("has {} values, where the knots span {}.", values.size(), size));
  return values;
}

LogGrid::Axis read_knots(ConfigReader& knots, const std::string& name) {
  auto values = knots.required<std::vector<double>>(name, Bound::kAny);
  const bool grows = std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  knots.check(!values.empty() && grows, name, "knots must grow from one to the next, and be at least one.");
  return {name, std::move(values)};
}

void read_grid(ConfigReader& in, const OpInfo& info, FittedOp& out) {
  std::vector<LogGrid::Axis> axes;
  std::size_t size = 1;
  ConfigReader knots = in.required_section("knots_log2");
  ConfigReader hull = in.required_section("hull_log2");
  for (std::size_t a = 0; a < count_names(info.axes); ++a) {
    const std::string name(info.axes[a]);
    axes.push_back(read_knots(knots, name));
    const auto ends = hull.required<std::vector<double>>(name, Bound::kAny);
    hull.check(ends.size() == 2 && ends[0] <= ends[1], name, "the hull has a least and a greatest value.");
    out.hull[a] = {ends[0], ends[1]};
    size *= axes.back().knots.size();
  }
  out.correction = LogGrid(std::move(axes));
  out.correction.values() = read_corrections(in, size);
  const auto supported = in.required<std::string>("supported");
  in.check(supported.size() == size && supported.find_first_not_of("01") == std::string::npos, "supported",
           fmt::format("has {} characters; {} are needed, one 0 or 1 for every knot of the correction.",
                       supported.size(), size));
  for (const char c : supported) {
    out.supported.push_back(c == '1');
  }
}

void read_shapes(ConfigReader& in, const OpInfo& info, FittedOp& out) {
  for (ConfigReader& shape : in.list_of_sections("shapes")) {
    ShapeCorrection read;
    read.hidden = shape.required<double>("hidden", Bound::kPositive);
    read.intermediate = shape.required<double>("intermediate", Bound::kPositive);
    ConfigReader knots = shape.required_section("knots_log2");
    LogGrid::Axis rows = read_knots(knots, std::string(info.axes.front()));
    LogGrid::Axis skew = read_knots(knots, std::string(info.axes.back()));
    const std::size_t size = rows.knots.size() * skew.knots.size();
    read.correction = LogGrid({std::move(rows), std::move(skew)});
    read.correction.values() = read_corrections(shape, size);
    if (shape.has("ranks")) {
      ConfigReader ranks = shape.section("ranks");
      read.ranks.emplace();
      for (std::size_t t = 0; t < kRankTerms.size(); ++t) {
        read.ranks->at(t) = ranks.required<double>(std::string(kRankTerms[t]));
      }
      ranks.check(read.ranks->at(0) >= 1 && read.ranks->at(1) >= 1, "own_few",
                  "no rank is faster than its rows alone.");
    }
    out.shapes.push_back(std::move(read));
  }
  in.check(out.shapes.empty() || out.kind == OpKind::kGroupedGemm, "shapes", "only a grouped GEMM has them.");
}

void read_steps(ConfigReader& in, const OpInfo& info, FittedOp& out) {
  if (in.has("steps")) {
    in.check(out.kind == OpKind::kDenseGemm, "steps", "only a dense GEMM has them.");
    ConfigReader steps = in.section("steps");
    ConfigReader knots = steps.required_section("knots_log2");
    LogGrid::Axis axis = read_knots(knots, std::string(info.axes.front()));
    const std::size_t size = axis.knots.size();
    out.steps = LogGrid({std::move(axis)});
    out.steps->values() = read_corrections(steps, size);
  }
}

void read_remote_rows(ConfigReader& in, FittedOp& out) {
  if (in.has("remote_rows")) {
    in.check(out.kind == OpKind::kGroupedGemm, "remote_rows", "only a grouped GEMM has them.");
    ConfigReader remote = in.section("remote_rows");
    out.remote_rows.emplace();
    for (std::size_t t = 0; t < kRemoteTerms.size(); ++t) {
      out.remote_rows->coefficients[t] = remote.required<double>(std::string(kRemoteTerms[t]));
    }
    out.remote_rows->held_out = read_error_summary(remote.required_section("held_out"));
  }
}

FittedOp read_op(ConfigReader in) {
  FittedOp out;
  out.op = in.required<std::string>("op");
  const OpInfo* info = find_op_info(out.op);
  if (info == nullptr) {
    in.fail("op", unknown_name("operator", out.op, entry_names(op_infos())));
  }
  out.kind = info->kind;
  out.dtype = in.required<std::string>("dtype");
  out.kernel = in.required<std::string>("kernel");
  out.source = in.required<std::string>("source");
  out.rates.flops_per_s = in.required<FlopsPerSecond>("peak", Bound::kPositive).count();
  out.rates.bytes_per_s = in.required<BytesPerSecond>("bandwidth", Bound::kPositive).count();
  out.rates.weight_bytes = in.required<double>("weight_bytes", Bound::kPositive);
  out.rates.tile_rows = in.required<double>("tile_rows", Bound::kPositive);
  ConfigReader terms = in.required_section("coefficients");
  double sum = 0;
  for (std::size_t t = 0; t < count_names(info->terms); ++t) {
    out.coefficients[t] = terms.required<double>(std::string(info->terms[t]));
    sum += out.coefficients[t];
  }
  in.check(sum > 0, "coefficients", "at least one must be positive: the operator would take no time.");
  read_grid(in, *info, out);
  read_shapes(in, *info, out);
  read_steps(in, *info, out);
  read_remote_rows(in, out);
  out.held_out = read_error_summary(in.required_section("held_out"));
  out.held_out_skewed = maybe_errors(in, "held_out_skewed");
  out.held_out_width = maybe_errors(in, "held_out_width");
  out.held_out_model = maybe_errors(in, "held_out_model");
  out.noise = maybe_errors(in, "noise");
  return out;
}

}  // namespace

ErrorSummary read_error_summary(ConfigReader in) {
  ErrorSummary out;
  out.points = in.required<std::int64_t>("points");
  out.median = in.required<double>("median");
  out.p95 = in.required<double>("p95");
  out.worst = in.required<double>("worst");
  return out;
}

// A fit.yaml states the hull to 6 digits behind the point and the knots to 4: a measured place must not fall out of its
// own hull, nor into the next cell, by that rounding.
bool FittedOp::inside(const OpPlace& place) const {
  constexpr double kHullRounding = 1e-6, kLeastWeight = 1e-3;
  for (std::size_t a = 0; a < correction.axes().size(); ++a) {
    if (place.axes[a] < hull[a][0] - kHullRounding || place.axes[a] > hull[a][1] + kHullRounding) {
      return false;
    }
  }
  const LogGrid::Corners around = correction.corners(std::span(place.axes).first(correction.axes().size()));
  for (std::size_t c = 0; c < around.count; ++c) {
    if (around.weight[c] > kLeastWeight && !supported[around.index[c]]) {
      return false;
    }
  }
  return true;
}

Price FittedOp::price(std::span<const double> parameters) const {
  EPSIM_CHECK(std::all_of(parameters.begin(), parameters.end(), [](double x) { return x > 0; }),
              "an operator is priced for nothing");
  const OpPlace place = op_place(kind, parameters, rates);
  double time = 0;
  for (std::size_t t = 0; t < coefficients.size(); ++t) {
    time += coefficients[t] * place.terms[t];
  }
  double correction_here = correction.at(std::span(place.axes).first(correction.axes().size()));
  const ShapeCorrection* shape = kind == OpKind::kGroupedGemm ? shape_of(parameters[3], parameters[4]) : nullptr;
  if (shape != nullptr) {
    correction_here += shape->correction.at(shape_axes(place));
  }
  if (steps) {
    correction_here += steps->at(std::span(place.axes).first(1));
  }
  const bool known = inside(place) && (shapes.empty() || shape != nullptr);
  return {Seconds(time * std::exp(correction_here)), known ? Origin::kInterpolated : Origin::kExtrapolated};
}

double weight_of_many(double each) {
  constexpr double kFew = 8, kMany = 128;
  return std::clamp(std::log2(each / kFew) / std::log2(kMany / kFew), 0.0, 1.0);
}

Seconds RankTerms::time(Seconds alone, double each, double remote) const {
  if (remote <= 0) {
    return alone;
  }
  const double many = own_few == own_many ? 1 : weight_of_many(each);
  return alone * (own_few * (1 - many) + own_many * many) + launch * share_of_launch(remote) + row * remote;
}

const ShapeCorrection* FittedOp::shape_of(double hidden, double intermediate) const {
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const ShapeCorrection& s) {
    return s.hidden == hidden && s.intermediate == intermediate;
  });
  return found == shapes.end() ? nullptr : &*found;
}

RankTerms FittedOp::rank_terms(double hidden, double intermediate) const {
  const double column_s = kActivationBytes / rates.bytes_per_s;
  const ShapeCorrection* shape = shape_of(hidden, intermediate);
  if (shape != nullptr && shape->ranks) {
    const auto& [few, many, launch, columns] = *shape->ranks;
    return {few, many, Seconds(launch * 1e-6), Seconds(columns * column_s)};
  }
  if (!remote_rows) {
    return {};
  }
  const auto& [launch, of_hidden, of_width] = remote_rows->coefficients;
  return {1, 1, Seconds(launch * 1e-6), Seconds((of_hidden * hidden + of_width * intermediate) * column_s)};
}

const FittedOp* FittedProfile::find(std::string_view op) const {
  const auto found = std::ranges::find(ops, op, &FittedOp::op);
  return found == ops.end() ? nullptr : &*found;
}

std::vector<std::string> FittedProfile::complete_from(const FittedProfile& other) {
  std::vector<std::string> taken;
  const bool same_engine = machine.starts_with(other.machine);  // "h200-trtllm-1.2" and "h200-trtllm"
  for (const FittedOp& op : other.ops) {
    if (find(op.op) == nullptr && (same_engine || op.op != kPromptsIntoFp8)) {
      ops.push_back(op);
      taken.push_back(op.op);
    }
  }
  return taken;
}

FittedProfile read_fitted_profile(const Config& document) {
  ConfigReader in = document.root();
  FittedProfile out;
  const auto version = in.required<int>("version");
  in.check(version == kProfileVersion, "version",
           fmt::format("is {}; this program reads version {}.", version, kProfileVersion));
  out.machine = in.required<std::string>("machine");
  out.gpu = in.required<std::string>("gpu");
  out.licence = in.optional<std::string>("licence", "");
  out.notes = in.optional<std::string>("notes", "");
  for (ConfigReader& op : in.list_of_sections("ops")) {
    FittedOp read = read_op(op);
    op.check(out.find(read.op) == nullptr, "op", fmt::format("'{}' is given twice.", read.op));
    out.ops.push_back(std::move(read));
  }
  in.finish();
  return out;
}

}  // namespace epsim
