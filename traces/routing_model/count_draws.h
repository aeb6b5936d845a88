// Counts of few tokens: how many of a step's tokens choose each expert.
//
//   Models : `trials` tokens choose independently, top_k different experts each; every count is binomial of its chance. Up
//            to 1,024 tokens times experts: token by token, exactly. Above: by inversion up to a mean of 4, else by the
//            normal deviate with the skewness of Cornish and Fisher (1938), rounded; then single choices are added or
//            taken away, in proportion to variances, until the row has trials * top_k. Of 60 experts and more as many
//            have rows as chance says, within 1 % (top-1, or an expert with 40 % of the tokens: 3 %).
//   Ignores: which choices a token makes together.
//   Valid  : up to kFewRows rows an expert on average; larger rows are near normal (byte_gaussian.h).
//   Cost   : 2 to 6 ns an expert.
#pragma once

#include <cstdint>
#include <span>

namespace epsim {

inline constexpr double kFewRows = 16;
inline constexpr std::size_t kCountLanes = 8;  // rows are padded to whole blocks with chances of 0

// How many independent tokens' counts have `overdispersion` times the variance of so many tokens', in proportion: tokens
// come in clumps of so many that choose alike (below 1 in parts, so that rows are no whole numbers). 0 where a row is not
// drawn so: because it has kFewRows an expert or more, or stands for chances (StepLoads::drawn_as_counts).
int count_trials(double tokens, double overdispersion, int top_k, int experts);

// `chances` [expert, padded]: at most 1 each, at least top_k of them above 0. Fills `counts` [the same] with whole numbers
// up to `trials` that sum to trials * top_k.
void draw_choices(std::span<const float> chances, int trials, int top_k, std::uint64_t key, std::span<float> counts);

}  // namespace epsim
