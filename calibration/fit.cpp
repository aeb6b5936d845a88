#include "calibration/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "calibration/correction_fit.h"
#include "calibration/rank_fit.h"
#include "models/catalogue/profiles.h"
#include "models/profile/expert_price.h"
#include "sim/core/choice.h"
#include "sim/core/error.h"
#include "sim/core/fingerprint.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

constexpr std::size_t kMostTraining = 16384;  // points; more are thinned by their hash
constexpr std::ptrdiff_t kWidthFolds = 5;     // parts of the measured sizes of experts, each of which is left out once
constexpr double kTiles[] = {1, 16, 32, 64, 128, 256};
constexpr std::array<std::size_t, 4> kShapeKnots{18, 3, 1, 1}, kStepKnots{80, 1, 1, 1};

constexpr std::string_view kAssignments = "assignments";  // column of a point table that has expert-parallel ranks

struct Sample {
  std::vector<double> parameters;
  double time = 0;
  bool held_out = false;
  double remote = 0, experts = 0;  // assignments to other GPUs' experts, where there are any, and the model's experts
};

std::uint64_t hash_of(std::span<const double> parameters) {
  Fingerprint hash;
  for (const double x : parameters) {
    hash.add(std::bit_cast<std::uint64_t>(x));
  }
  return hash.value();
}

std::vector<Sample> read_samples(const PointTable& points, const OpInfo& info) {
  std::vector<const std::vector<double>*> columns;
  for (std::size_t c = 0; c < count_names(info.parameters); ++c) {
    columns.push_back(&points.values_of(info.parameters[c]));
  }
  const bool ranks = std::ranges::find(points.columns, kAssignments) != points.columns.end();
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Sample sample;
    sample.remote = ranks ? points.values_of(kAssignments)[i] - points.values_of("rows")[i] : 0;
    sample.experts = ranks ? points.values_of("experts")[i] : 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      sample.parameters.push_back((*columns[c])[i]);
      if (sample.parameters.back() <= 0) {
        throw InputError({"", 0, points.op + "/" + std::string(info.parameters[c])},
                         fmt::format("point {} is zero; a fit needs positive parameters.", i));
      }
    }
    sample.time = points.time_s[i];
    sample.held_out = is_held_out(sample.parameters);
    samples.push_back(std::move(sample));
  }
  return samples;
}

// Coefficients of the physical terms, for one tile height.
void fit_terms(FittedOp& op, std::span<const Sample* const> training) {
  const std::size_t terms = count_names(op_info(op.kind).terms);
  std::vector<double> a, b(training.size(), 1.0);
  for (const Sample* s : training) {
    const OpPlace place = op_place(op.kind, s->parameters, op.rates);
    for (std::size_t t = 0; t < terms; ++t) {
      a.push_back(place.terms[t] / s->time);
    }
  }
  const std::vector<double> x = non_negative_least_squares(a, b, terms);
  std::copy(x.begin(), x.end(), op.coefficients.begin());
}

double physical_time(const FittedOp& op, const OpPlace& place) {
  double time = 0;
  for (std::size_t t = 0; t < op.coefficients.size(); ++t) {
    time += op.coefficients[t] * place.terms[t];
  }
  return time;
}

void set_hull(FittedOp& op, std::span<const Sample> samples) {
  op.hull.fill({std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()});
  for (const Sample& s : samples) {
    const OpPlace place = op_place(op.kind, s.parameters, op.rates);
    for (std::size_t a = 0; a < op.hull.size(); ++a) {
      op.hull[a] = {std::min(op.hull[a][0], place.axes[a]), std::max(op.hull[a][1], place.axes[a])};
    }
  }
}

// Knots of the correction with a measured point in one of the cells around them.
void set_supported(FittedOp& op, std::span<const Sample> samples) {
  op.supported.assign(op.correction.values().size(), false);
  for (const Sample& s : samples) {
    const OpPlace place = op_place(op.kind, s.parameters, op.rates);
    const LogGrid::Corners around = op.correction.corners(std::span(place.axes).first(op.correction.axes().size()));
    for (std::size_t c = 0; c < around.count; ++c) {
      op.supported[around.index[c]] = true;
    }
  }
}

CorrectionSample correction_sample(const FittedOp& op, const Sample& s, std::size_t axes) {
  const OpPlace place = op_place(op.kind, s.parameters, op.rates);
  return {{place.axes.begin(), place.axes.begin() + static_cast<std::ptrdiff_t>(axes)},
          std::log(s.time / std::max(physical_time(op, place), 1e-12))};
}

// What each measured size of experts takes beyond the correction for all.
void fit_shapes(FittedOp& op, std::span<const Sample* const> training) {
  std::map<std::pair<double, double>, std::vector<CorrectionSample>> by_shape;
  for (const Sample* s : training) {
    const OpPlace place = op_place(op.kind, s->parameters, op.rates);
    const double left = std::log(s->time / op.price(s->parameters).time.count());
    const std::array<double, 2> axes = shape_axes(place);
    by_shape[{s->parameters[3], s->parameters[4]}].push_back({{axes.begin(), axes.end()}, left});
  }
  const OpInfo& info = op_info(op.kind);
  const std::vector<std::string> names{std::string(info.axes.front()), std::string(info.axes.back())};
  for (const auto& [shape, samples] : by_shape) {  // priced before the first of them is there
    op.shapes.push_back({shape.first, shape.second, fit_correction(samples, names, kShapeKnots)});
  }
}

// What single sizes along the first axis take beyond the smooth correction: kernels change at whole tiles and at the
// buckets of their tuners.
void fit_steps(FittedOp& op, std::span<const Sample* const> training) {
  std::vector<CorrectionSample> samples;
  for (const Sample* s : training) {
    const OpPlace place = op_place(op.kind, s->parameters, op.rates);
    samples.push_back({{place.axes[0]}, std::log(s->time / op.price(s->parameters).time.count())});
  }
  op.steps = fit_correction(samples, {std::string(op_info(op.kind).axes[0])}, kStepKnots);
}

void fit_corrections(FittedOp& op, std::span<const Sample* const> training) {
  const OpInfo& info = op_info(op.kind);
  const std::size_t axes = count_names(info.axes);
  if (training.size() < kFewestToCorrect) {
    std::vector<LogGrid::Axis> one_cell;
    for (std::size_t a = 0; a < axes; ++a) {
      one_cell.push_back({std::string(info.axes[a]), {0}});
    }
    op.correction = LogGrid(std::move(one_cell));
    return;
  }
  const std::vector<CorrectionSample> samples =
      mapped(training, [&](const Sample* s) { return correction_sample(op, *s, axes); });
  const std::vector<std::string> names(info.axes.begin(), info.axes.begin() + static_cast<std::ptrdiff_t>(axes));
  op.correction = fit_correction(samples, names, knot_limits(op.kind));
  op.supported.assign(op.correction.values().size(), false);  // set once the fit is chosen
  op.shapes.clear();
  op.steps.reset();
  if (op.kind == OpKind::kGroupedGemm) {
    fit_shapes(op, training);
  }
  if (op.kind == OpKind::kDenseGemm) {
    fit_steps(op, training);
  }
}

double error_of(const FittedOp& op, const Sample& s) {
  return std::fabs(op.price(s.parameters).time.count() / s.time - 1);
}

// Median plus a quarter of the 95th percentile over the training points: what a tile height is chosen by.
double training_score(const FittedOp& op, std::span<const Sample* const> training) {
  const ErrorSummary summary = summarise_errors(mapped(training, [&](const Sample* s) { return error_of(op, *s); }));
  return summary.median + summary.p95 / 4;
}

void fit_best_tile(FittedOp& op, std::span<const Sample* const> training) {
  const bool tiled = op.kind == OpKind::kGroupedGemm || op.kind == OpKind::kDenseGemm;
  FittedOp best;
  double least = std::numeric_limits<double>::infinity();
  for (const double tile : kTiles) {
    op.rates.tile_rows = tile;
    fit_terms(op, training);
    fit_corrections(op, training);
    const double score = training_score(op, training);
    if (score < least) {
      least = score;
      best = op;
    }
    if (!tiled) {
      break;
    }
  }
  op = std::move(best);
}

std::optional<ErrorSummary> noise_of(std::span<const Sample> samples) {
  std::map<std::vector<double>, std::vector<double>> repeated;
  for (const Sample& s : samples) {
    repeated[s.parameters].push_back(s.time);
  }
  std::vector<double> errors;
  for (const auto& [parameters, times] : repeated) {
    for (std::size_t i = 1; i < times.size(); ++i) {
      errors.push_back(std::fabs(times[i] / times[0] - 1));
    }
  }
  return errors.size() < 10 ? std::nullopt : std::optional(summarise_errors(std::move(errors)));
}

// A grouped GEMM's groups are uneven when the largest has more than its whole share.
bool is_skewed(const FittedOp& op, const Sample& s) {
  return op.kind == OpKind::kGroupedGemm && s.parameters[2] > std::ceil(s.parameters[0] / s.parameters[1]);
}

void state_errors(FittedOp& op, std::span<const Sample> samples) {
  std::vector<double> even, skewed;
  for (const Sample& s : samples) {
    if (s.held_out) {
      (is_skewed(op, s) ? skewed : even).push_back(error_of(op, s));
    }
  }
  op.held_out = summarise_errors(std::move(even));
  if (!skewed.empty()) {
    op.held_out_skewed = summarise_errors(std::move(skewed));
  }
  op.noise = noise_of(samples);
}

bool is_attention(const FittedOp& op) { return op.op.starts_with("mla_") || op.op.starts_with("gqa_"); }

// epsim-calibrate does not measure attention, whose speed is that of an engine's own kernels. The fit of public tables
// for the same GPU has it.
void add_attention(FittedProfile& profile, const std::function<void(const std::string&)>& note) {
  if (profile.ops.empty() || std::any_of(profile.ops.begin(), profile.ops.end(), is_attention)) {
    return;
  }
  bool found = false;
  for (const std::string& name : fitted_profile_names()) {
    FittedProfile other = fitted_profile(name);
    std::erase_if(other.ops, [](const FittedOp& op) { return !is_attention(op); });
    if (!same_gpu(other.gpu, profile.gpu) || profile.complete_from(other).empty()) {
      continue;
    }
    const std::string taken =
        fmt::format("attention: not measured; its operators are those of the committed fit '{}' of the same GPU ({})",
                    name, other.licence);
    profile.notes += (profile.notes.empty() ? "" : " ") + taken + ".";
    note(taken);
    found = true;
  }
  if (found) {
    return;
  }
  note(
      fmt::format("attention: not measured, and there is no committed fit of this GPU ('{}'): runs price it by the "
                  "compute profile's attention_prefill and attention_decode",
                  profile.gpu));
}

void thin(std::vector<const Sample*>& training) {
  if (training.size() > kMostTraining) {
    std::stable_sort(training.begin(), training.end(),
                     [](const Sample* a, const Sample* b) { return hash_of(a->parameters) < hash_of(b->parameters); });
    training.resize(kMostTraining);
  }
}

// Errors on the samples of each group by a fit to all others, at the tile height of `op`. A group is a number.
template <class GroupOf>
std::optional<ErrorSummary> held_out_by(const FittedOp& op, std::span<const Sample> samples, GroupOf group_of) {
  std::map<double, std::vector<const Sample*>> groups;
  for (const Sample& s : samples) {
    groups[group_of(s)].push_back(&s);
  }
  std::vector<double> errors;
  for (const auto& [group, unseen] : groups) {
    std::vector<const Sample*> training;
    for (const Sample& s : samples) {
      if (group_of(s) != group) {
        training.push_back(&s);
      }
    }
    if (training.size() < min_points(op_info(op.kind))) {
      return std::nullopt;
    }
    thin(training);
    FittedOp other = op;
    fit_terms(other, training);
    fit_corrections(other, training);
    for (const Sample* s : unseen) {
      errors.push_back(error_of(other, *s));
    }
  }
  return summarise_errors(std::move(errors));
}

void state_errors_on_new_experts(FittedOp& op, std::span<const Sample> samples) {
  if (op.kind != OpKind::kGroupedGemm || std::ssize(op.shapes) < kWidthFolds) {
    return;
  }
  const auto size_of = [&](const Sample& s) {
    return op.shape_of(s.parameters[3], s.parameters[4]) - op.shapes.data();
  };
  op.held_out_width =
      held_out_by(op, samples, [&](const Sample& s) { return static_cast<double>(size_of(s) % kWidthFolds); });
  op.held_out_model = held_out_by(op, samples, [](const Sample& s) { return s.parameters[3]; });
}

std::vector<RankPoint> rank_points(const FittedOp& op, std::span<const Sample> ranks) {
  return mapped(ranks, [&](const Sample& s) {
    const std::vector<double>& p = s.parameters;
    const Price alone = expert_price(op, {p[0] / p[1], p[1], p[2], p[3], p[4], p[5], s.experts});
    return RankPoint{p[3], p[4], alone.time, p[0] / p[1], s.remote, s.time, s.held_out};
  });
}

std::vector<const Sample*> choose_training(std::span<const Sample> samples) {
  std::vector<const Sample*> training;
  for (const Sample& s : samples) {
    if (!s.held_out) {
      training.push_back(&s);
    }
  }
  thin(training);
  return training;
}

}  // namespace

double MachineRates::flops_per_s(const OpDtype& dtype) const {
  return product_rate(dtype.type, bf16_flops_per_s, fp8_flops_per_s, fp4_flops_per_s);
}

std::size_t min_points(const OpInfo& info) { return std::max<std::size_t>(8, 4 * count_names(info.terms)); }

bool is_held_out(std::span<const double> parameters) { return hash_of(parameters) % 5 == 0; }

FittedOp fit_op(const PointTable& points, const MachineRates& rates, const std::string& source) {
  const OpInfo* info = find_op_info(points.op);
  if (info == nullptr) {
    throw InputError({"", 0, points.op}, unknown_name("operator to fit", points.op, entry_names(op_infos())));
  }
  std::vector<Sample> samples = read_samples(points, *info);
  const auto with_remote =
      std::stable_partition(samples.begin(), samples.end(), [](const Sample& s) { return s.remote <= 0; });
  const std::vector<Sample> ranks(with_remote, samples.end());
  samples.erase(with_remote, samples.end());
  refuse_if(
      samples.size() < min_points(*info), points.op,
      fmt::format("has {} points{}; a fit needs at least {}.", samples.size(),
                  ranks.empty() ? "" : " beside those with assignments to other GPUs' experts", min_points(*info)));
  const auto attribute = [&](const char* name) {
    const auto found = points.attributes.find(name);
    return found == points.attributes.end() ? std::string("not stated") : found->second;
  };
  // Of several kernels epsim-calibrate keeps the fastest of each point.
  const bool measured_here = points.attributes.contains("kernels");
  FittedOp op;
  op.op = points.op;
  op.kind = info->kind;
  op.dtype = attribute("dtype");
  op.kernel = attribute(measured_here ? "kernels" : "kernel");
  op.source = source;
  op.rates = {rates.flops_per_s(dtype_of(points.op)), rates.bytes_per_s, bytes_of(dtype_of(points.op).type), 1.0};
  const std::vector<const Sample*> training = choose_training(samples);
  fit_best_tile(op, training);
  set_hull(op, samples);
  set_supported(op, samples);
  state_errors(op, samples);
  state_errors_on_new_experts(op, samples);
  fit_ranks(op, rank_points(op, ranks));
  return op;
}

namespace {

// A public table says where it is from; points of epsim-calibrate are told by machine and time.
std::string source_of(const Provenance& p, const PointTable& table) {
  std::string out = !p.source.empty() ? p.source
                                      : fmt::format("epsim-calibrate on {}, {}, driver {}, CUDA {}, cuBLAS {}", p.gpu,
                                                    p.date, p.driver, p.cuda, p.cublas);
  const auto file = table.attributes.find("table");
  return file == table.attributes.end() ? out : out + ", " + file->second;
}

}  // namespace

FittedProfile fit_profile(const PointFile& points, const MachineRates& rates,
                          const std::function<void(const std::string&)>& note) {
  FittedProfile out;
  out.machine = points.provenance.machine;
  out.gpu = points.provenance.gpu;
  out.licence = points.provenance.licence;
  out.notes = points.provenance.notes;
  for (const PointTable& table : points.tables) {
    const OpInfo* info = find_op_info(table.op);
    if (info == nullptr || table.size() < min_points(*info)) {
      note(fmt::format("{}: not fitted: {}", table.op,
                       info == nullptr
                           ? "no compute operator of this kind (links are fitted apart)"
                           : fmt::format("{} points, at least {} are needed", table.size(), min_points(*info))));
      continue;
    }
    out.ops.push_back(fit_op(table, rates, source_of(points.provenance, table)));
  }
  if (points.provenance.source.empty()) {  // measured here; a public table's gaps are another table's to fill
    add_attention(out, note);
  }
  return out;
}

}  // namespace epsim
