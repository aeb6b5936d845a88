#include "models/profile/expert_price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace epsim {
namespace {

// SGLang's tables but the A100's, vLLM's, and TensorRT-LLM's of its own cubins, as far as rows alone are fitted to them, measure whole
// models on one GPU: few experts are touched only by few tokens. Many rows for few experts, what a GPU of an expert-parallel group has, lie beyond every
// point, and a fit's correction means nothing there. The A100's table has them.
constexpr std::string_view kWholeModelKernels[] = {"sglang_", "vllm_", "moe_torch_flow_min_latency"};  // or begin so
constexpr double kMostMeasuredGroups = 256;
// Rows per expert up to which few touched experts were measured, and from which all of a model's experts were touched.
constexpr double kFewRows = 2, kManyRows = 8;
// A place among them, by which a table is told that has few experts with many rows.
constexpr double kFewExperts = 4, kRowsOfFew = 512;

// Whether only whole models on one GPU were measured where this many rows come to an expert.
bool lacks_few_experts(const FittedOp& op, const ExpertRows& r) {
  const std::array parameters{kRowsOfFew * kFewExperts, kFewExperts, kRowsOfFew, r.hidden, r.intermediate,
                              kRowsOfFew * kFewExperts};
  const bool whole = std::any_of(std::begin(kWholeModelKernels), std::end(kWholeModelKernels),
                                 [&](std::string_view name) { return op.kernel.starts_with(name); });
  return whole && !op.inside(op_place(op.kind, parameters, op.rates));
}

}  // namespace

Price expert_price(const FittedOp& op, const ExpertRows& r) {
  const auto at = [&](double groups, double tokens) {
    const double most = std::min(r.each * groups, std::max(std::ceil(r.each), r.rows_max));
    return op.price(std::array{r.each * groups, groups, most, r.hidden, r.intermediate, tokens});
  };
  const double whole = std::min(r.experts, kMostMeasuredGroups);
  const double many = std::clamp(std::log2(r.each / kFewRows) / std::log2(kManyRows / kFewRows), 0.0, 1.0);
  if (r.groups >= whole || many <= 0 || !lacks_few_experts(op, r)) {
    return at(r.groups, r.tokens);
  }
  // Each expert takes what it takes among all of the model's, at as many rows; the launch is paid once all the same.
  const Price all = at(whole, r.tokens * (whole / r.groups));
  const double share = r.groups / whole, launch = op.coefficients.front() * 1e-6;
  const double scaled = all.time.count() * share + launch * (1 - share);
  if (many >= 1) {
    return {Seconds(scaled), Origin::kExtrapolated};  // few experts alone were not measured at as many rows
  }
  const Price few = at(r.groups, r.tokens);
  return {Seconds(std::pow(few.time.count(), 1 - many) * std::pow(scaled, many)), Origin::kExtrapolated};
}

}  // namespace epsim
