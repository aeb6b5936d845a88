#include "models/profile/expert_price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace epsim {
namespace {

// Tables of whole models on one GPU alone, by what their kernels' names begin with: SGLang's but the A100's, vLLM's, and TensorRT-LLM's
// of its own cubins, as far as rows alone are fitted to them. Few experts are touched there only by few tokens: many rows for few
// experts, what a GPU of an expert-parallel group has, lie beyond every point, and a fit's correction means nothing there.
struct WholeModels {
  std::string_view kernel;
  // Whether more rows never take the same experts less time. Triton's and FlashInfer's kernels choose better tiles for more tokens;
  // for TensorRT-LLM's own the held-out ranks are off by 9.2 % (median) with this bound and by 9.9 % without.
  bool rows_never_help;
};
constexpr WholeModels kWholeModels[] = {{"sglang_", false}, {"vllm_", false}, {"moe_torch_flow_min_latency", true}};
constexpr double kMostMeasuredGroups = 256;
// Where each row goes to any of E experts alike, g of them are touched by E ln(E / (E - g)) rows; by the tables' most skewed loads
// (power_law_1.2) with about the cube of the rows per expert: 25, 73, 110, 164 and 205 of 256 with 1.3, 1.8, 2.3, 3.1 and 10.
constexpr double kSkewOfTables = 3;
// Octaves of rows per expert over which a fit passes into the rate among all of a model's experts.
constexpr double kOctaves = 2;
// A place among few experts with many rows, by which a table is told that has them: experts of Mixtral, which has eight in all, are
// no such place.
constexpr double kFewExperts = 2, kRowsOfFew = 512;

// Null for a table that has few experts with many rows.
const WholeModels* only_whole_models(const FittedOp& op, const ExpertRows& r) {
  const auto* found =
      std::ranges::find_if(kWholeModels, [&](const WholeModels& of) { return op.kernel.starts_with(of.kernel); });
  const std::array few{kRowsOfFew * kFewExperts, kFewExperts, kRowsOfFew, r.hidden, r.intermediate,
                       kRowsOfFew * kFewExperts};
  return found == std::end(kWholeModels) || op.inside(op_place(op.kind, few, op.rates)) ? nullptr : found;
}

}  // namespace

Price expert_price(const FittedOp& op, const ExpertRows& r) {
  const auto at = [&](double each, double groups, double tokens) {
    const double most = std::min(each * groups, std::max(std::ceil(each), r.rows_max));
    return op.price(std::array{each * groups, groups, most, r.hidden, r.intermediate, tokens});
  };
  const Price fitted = at(r.each, r.groups, r.tokens);
  const double whole = std::min(r.experts, kMostMeasuredGroups);
  // The most rows per expert with which a whole model's tokens were measured to touch as few experts.
  const double even = -r.experts / r.groups * std::log1p(-r.groups / r.experts);
  const double measured = std::pow(even, kSkewOfTables);
  const WholeModels* table = r.groups >= whole || r.each <= measured ? nullptr : only_whole_models(op, r);
  if (table == nullptr) {
    return fitted;
  }
  // Each expert takes what it takes among all of the model's, at as many rows; the launch is paid once all the same.
  const Price all = at(r.each, whole, r.tokens * (whole / r.groups));
  const double share = r.groups / whole, launch = op.coefficients.front() * 1e-6;
  const double scaled = all.time.count() * share + launch * (1 - share);
  const double many = std::min(1.0, std::log2(r.each / measured) / kOctaves);
  const Seconds time(std::pow(fitted.time.count(), 1 - many) * std::pow(scaled, many));
  const Seconds least = table->rows_never_help ? at(even, r.groups, r.tokens).time : Seconds{};
  return {std::max(time, least), Origin::kExtrapolated};
}

}  // namespace epsim
