// Counts of few tokens: how many of a step's tokens choose each expert.
//
//   Models : `trials` tokens choose independently, top_k different experts each. Every count is binomial of its chance:
//            by inversion up to a mean of 4, above by the normal deviate with the skewness of Cornish and Fisher (1938),
//            rounded. Then single choices are added or taken away until the row has trials * top_k:
//            with Poisson counts that would be the multinomial draw. As many experts have rows as chance says, within 1 %.
//   Valid  : up to kFewRows rows an expert on average; larger rows are near normal (byte_gaussian.h).
//   Cost   : about 3 ns an expert.
#pragma once

#include <cstdint>
#include <span>

namespace epsim {

inline constexpr double kFewRows = 16;
inline constexpr std::size_t kCountLanes = 8;  // rows are padded to whole blocks with chances of 0

// How many independent tokens' counts have `overdispersion` times the variance of so many tokens', in proportion; 0 where
// a row is not drawn so: because it has more than kFewRows an expert, or stands for chances (StepLoads::drawn_as_counts).
int count_trials(double tokens, double overdispersion, int top_k, int experts);

// `chances` [expert, padded]: at most 1 each, at least top_k of them above 0. Fills `counts` [the same] with whole numbers
// up to `trials` that sum to trials * top_k.
void draw_choices(std::span<const float> chances, int trials, int top_k, std::uint64_t key, std::span<float> counts);

}  // namespace epsim
