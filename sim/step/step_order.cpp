#include "sim/step/step_order.h"

#include <cstddef>
#include <iterator>

namespace epsim {
namespace {

using Part = LayerPart;
using Lane = StepLane;

constexpr StageRow kStages[] = {
    {Stage::kAttention, Part::kAttention, Lane::kCompute},
    {Stage::kPrepare, Part::kAttention, Lane::kCompute},
    {Stage::kScores, Part::kAttention, Lane::kCompute},
    {Stage::kGate, Part::kGate, Lane::kCompute},
    {Stage::kPredict, Part::kPrefetch, Lane::kCompute},
    {Stage::kShared, Part::kDense, Lane::kCompute},
    {Stage::kDense, Part::kDense, Lane::kCompute},
    {Stage::kHead, Part::kOther, Lane::kCompute},
    {Stage::kCounts, Part::kDispatch, Lane::kNetwork},
    {Stage::kDispatch, Part::kDispatch, Lane::kNetwork},
    {Stage::kCombine, Part::kCombine, Lane::kNetwork},
    {Stage::kFirstExperts, Part::kExperts, Lane::kCompute},
    {Stage::kExperts, Part::kExperts, Lane::kCompute},
    {Stage::kDispatchIn, Part::kDispatch, Lane::kNetwork},
    {Stage::kDispatchOut, Part::kDispatch, Lane::kNetwork},
    {Stage::kCombineIn, Part::kCombine, Lane::kNetwork},
    {Stage::kCombineOut, Part::kCombine, Lane::kNetwork},
    {Stage::kIds, Part::kPlanning, Lane::kNetwork},
    {Stage::kPlan, Part::kPlanning, Lane::kCpu},
    {Stage::kCopies, Part::kPrefetch, Lane::kCopy},
    {Stage::kCopied, Part::kPrefetch, Lane::kCpu},
};
static_assert([] {
  for (std::size_t i = 0; i < std::size(kStages); ++i) {
    if (kStages[i].stage != static_cast<Stage>(i)) {
      return false;
    }
  }
  return std::size(kStages) == static_cast<std::size_t>(Stage::kAwait);
}());

StepOrder one_batch(bool shared_aside) {
  StepOrder out{.streams = shared_aside, .layer = {}, .tail = {{{Stage::kDense}}, {{Stage::kHead}}}};
  out.layer = {{{Stage::kDense}}, {{Stage::kAttention, Stage::kGate}}, {{Stage::kDispatch}, needs::kGates}};
  if (shared_aside) {
    out.layer.push_back({{Stage::kShared}, needs::kGates, 0, 0, true});
    out.layer.push_back({{Stage::kExperts}, needs::kRows});
  } else {
    out.layer.push_back({{Stage::kExperts}, needs::kRows});
    out.layer.push_back({{Stage::kShared}});
  }
  out.layer.push_back({{Stage::kCombine}});
  return out;
}

StepOrder two_batches() {
  StepOrder out{.batches = 2, .streams = true, .layer = {}, .tail = {}};
  for (int b = 0; b < 2; ++b) {
    const Issue shared{{Stage::kShared}, needs::kLastExperts, b, -1, true};
    const Issue dense{{Stage::kDense}, needs::kOwnRank, b};
    out.layer.insert(out.layer.end(), {shared,
                                       dense,
                                       {{Stage::kAttention, Stage::kGate}, needs::kOwnRank, b},
                                       {{Stage::kDispatch}, needs::kGates, b}});
    out.tail.insert(out.tail.end(), {shared, dense});
  }
  for (int b = 0; b < 2; ++b) {
    out.layer.push_back({{Stage::kExperts}, needs::kRows, b});
    out.layer.push_back({{Stage::kCombine}, needs::kOwnRank, b});
  }
  out.tail.push_back({{Stage::kHead}});
  return out;
}

// The five stages of half `b`, one of them at a time.
std::vector<Issue> decode_stage(int number, int b, int layer) {
  switch (number) {
    case 0:
      return {{{Stage::kDense}, needs::kOwnRank, b, layer}, {{Stage::kPrepare}, needs::kOwnRank, b, layer}};
    case 1:
      return {{{Stage::kScores}, needs::kOwnRank, b, layer}, {{Stage::kGate}, needs::kOwnRank, b, layer}};
    case 2:
      return {{{Stage::kDispatch}, needs::kGates, b, layer}, {{Stage::kShared}, needs::kGates, b, layer, true}};
    case 3:
      return {{{Stage::kExperts}, needs::kRows, b, layer}, {{Stage::kCombine}, needs::kOwnRank, b, layer}};
    default:
      return {{{Stage::kAwait}, needs::kOwnRank, b, layer}};
  }
}

StepOrder two_batches_of_decode() {
  StepOrder out{.batches = 2, .streams = true, .layer = {}, .tail = {}};
  const auto add = [](std::vector<Issue>& to, const std::vector<Issue>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  constexpr int kCount = 5, kBehind = 2;
  for (int i = 0; i < kCount; ++i) {
    const int other = (i + kCount - kBehind) % kCount;
    add(out.layer, decode_stage(i, 0, 0));
    add(out.layer, decode_stage(other, 1, i < kBehind ? -1 : 0));
  }
  for (int i = kCount - kBehind; i < kCount; ++i) {
    add(out.tail, decode_stage(i, 1, -1));
  }
  add(out.tail, {{{Stage::kDense}, needs::kOwnRank, 0}, {{Stage::kDense}, needs::kOwnRank, 1}, {{Stage::kHead}}});
  return out;
}

}  // namespace

const StageRow& row_of(Stage stage) { return kStages[static_cast<std::size_t>(stage)]; }

StepOrder order_of(StepOverlap overlap, bool decode) {
  if (overlap == StepOverlap::kTwoBatch) {
    return decode ? two_batches_of_decode() : two_batches();
  }
  return one_batch(overlap == StepOverlap::kSharedExpert);
}

StepOrder order_of(const ExecutionProfile& profile) {
  const bool gathers = profile.dispatch == ExecutionProfile::Dispatch::kAllGather;
  StepOrder out{.counts = !gathers, .layer = {}, .tail = {{{Stage::kDense}}, {{Stage::kHead}}}};
  const std::vector<Stage> ranks = profile.predicts_on_gpu
                                       ? std::vector{Stage::kAttention, Stage::kGate, Stage::kPredict}
                                       : std::vector{Stage::kAttention, Stage::kGate};
  const bool planned_ahead = profile.two_stage || !profile.plans_before_dispatch;
  out.layer = {{{Stage::kDense}}, {ranks}, {{Stage::kIds}}, {{Stage::kPlan}, needs::kIds}};
  if (profile.copies_before_dispatch) {
    out.layer.push_back({{Stage::kCopies}, needs::kPlan});
  }
  out.layer.push_back({{Stage::kDispatch},
                       profile.copies_before_dispatch ? needs::kPlan | needs::kCopies
                       : planned_ahead                ? needs::kGates
                                                      : needs::kPlan});
  if (profile.copies_on_demand) {
    out.layer.push_back({{Stage::kCopies}, needs::kPlan});
  }
  // Of the first experts, and what the others wait for besides them.
  const unsigned first = profile.two_stage          ? needs::kCopies  // local tokens wait for prefetched experts alone
                         : profile.copies_on_demand ? needs::kRows
                                                    : needs::kRows | needs::kCopies;
  const unsigned then = profile.two_stage          ? needs::kRows | needs::kPlan
                        : profile.copies_on_demand ? needs::kCopies
                                                   : 0U;
  out.layer.push_back({{Stage::kFirstExperts}, needs::kOwnRank | first, 0, 0, true});
  out.layer.push_back({{Stage::kExperts}, needs::kEarlyExperts | then});
  if (!profile.copies_on_demand && !profile.copies_before_dispatch) {
    out.layer.push_back({{Stage::kCopies}, needs::kPlan, 0, 1});
  }
  out.layer.push_back({{Stage::kShared}});
  out.layer.push_back({{Stage::kCombine}});
  return out;
}

}  // namespace epsim
