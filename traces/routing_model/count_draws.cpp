#include "traces/routing_model/count_draws.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"
#include "sim/core/simd.h"
#include "sim/domain/step_loads.h"
#include "traces/routing_model/byte_gaussian.h"

namespace epsim {

namespace {

using Block = RowLanes<2>::Float;
using Mask = RowLanes<2>::Int;

constexpr float kInverted = 4;  // mean counts below are drawn by inversion
constexpr int kMost = 32;       // no count of so small a mean comes near
constexpr int kUnrolled = 4;
constexpr float kGone = 1e-7F;          // a term past the mean that no uniform number of 24 bits asks for
constexpr std::size_t kByToken = 1024;  // choices looked at up to which tokens are drawn one by one

// Of a row, lane by lane: its counts, and what choices are added and taken away by (pick()).
struct Sums {
  float counts[kCountLanes], added[kCountLanes], taken[kCountLanes];
};

bool any(const Mask& mask) {
  std::uint64_t words[4];
  static_assert(sizeof words == sizeof(Mask));
  std::memcpy(words, &mask, sizeof mask);
  return (words[0] | words[1] | words[2] | words[3]) != 0;
}

EPSIM_INLINE void raise(const Block& to_raise, int exponent, Block& out) {
  Block base = to_raise;
  out = Block{} + 1.0F;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      out *= base;
    }
    base *= base;
  }
}

// The binomial count whose distribution function first exceeds `uniform`, which is negative where none is asked for. The
// terms' ratios are odds * ratios[k]. What single precision lacks of a sum of 1 ends with the last term that counts.
EPSIM_INLINE void invert(const Block& chance, const Block& mean, const Block& asked, int trials, const float* ratios,
                         Block& count) {
  Block uniform = asked;
  const Block rest = 1.0F - chance, odds = chance / rest, none = Block{} - 1.0F;
  Block term;
  raise(rest, trials, term);
  Block below = term;
  count = Block{};
  for (int k = 0; k < kMost && any(below <= uniform); k += kUnrolled) {
    for (int i = 0; i < kUnrolled; ++i) {
      count -= __builtin_convertvector(below <= uniform, Block);  // -1 where true
      term *= odds * ratios[k + i];
      below += term;
    }
    const Mask counts = (term > kGone) | (mean > static_cast<float>(k + kUnrolled));
    uniform = counts ? uniform : none;
  }
  const Block most = Block{} + static_cast<float>(trials);
  count = count < most ? count : most;
}

// The count nearest to mean + deviation z + (1 - 2 chance) (z^2 - 1) / 6: the deviate z with the binomial's skewness.
EPSIM_INLINE void round_deviate(const Block& chance, const Block& mean, const Block& z, float most, Block& count) {
  const Block variance = mean * (1.0F - chance), zero{};
  Block deviation;
  for (std::size_t i = 0; i < kCountLanes; ++i) {
    deviation[i] = __builtin_sqrtf(variance[i]);
  }
  Block x = mean + deviation * z + (1.0F - 2.0F * chance) * (z * z - 1.0F) * (1.0F / 6);
  x = x > zero ? x : zero;
  x = x < zero + most ? x : zero + most;
  count = __builtin_convertvector(__builtin_convertvector(x + 0.5F, Mask), Block);
}

EPSIM_SIMD void binomial_counts(const float* chances, std::size_t experts, int trials, std::uint64_t key, float* counts,
                                Sums& sums) {
  ByteGaussians<2> random({key, Fingerprint::mix(key)});
  constexpr auto kPerDeviation = static_cast<float>(1 / ByteGaussian::kDeviation);
  const auto most = static_cast<float>(trials);
  float ratios[kMost];
  for (int k = 0; k < kMost; ++k) {
    ratios[k] = static_cast<float>(std::max(0, trials - k)) / static_cast<float>(k + 1);
  }
  const Block surest = Block{} + (1 - 1e-6F);
  Block count_sums{}, added{}, taken{};
  for (std::size_t at = 0; at < experts; at += kCountLanes) {
    Block chance, uniform, deviate, count;
    std::memcpy(&chance, chances + at, sizeof chance);
    random.uniform(uniform);
    random.next(deviate);
    const Block free = 1.0F - chance;
    chance = chance < surest ? chance : surest;
    const Block mean = chance * most;
    const Mask many = mean >= kInverted;
    invert(chance, mean, many ? Block{} - 1.0F : uniform, trials, ratios, count);
    if (any(many)) {
      Block rounded;
      round_deviate(chance, mean, deviate * kPerDeviation, most, rounded);
      count = many ? rounded : count;
    }
    count_sums += count;
    const Block room = count < most ? chance : Block{};
    added += room * free;
    taken += count * free;
    std::memcpy(counts + at, &count, sizeof count);
  }
  std::memcpy(sums.counts, &count_sums, sizeof sums.counts);
  std::memcpy(sums.added, &added, sizeof sums.added);
  std::memcpy(sums.taken, &taken, sizeof sums.taken);
}

// Adds `sign` to `picks` counts, one at equal distances along the sum of weights, lane after lane, from `offset` of a
// distance on. What a count is off by, given the row's sum, is in proportion to its variance: the weight is `from` (the
// chance, or the count) times 1 - chance, and 0 of a count that is full. A count stays between 0 and `most`. Returns the sum of counts.
EPSIM_SIMD double pick(const float* from, const float* chances, const float* lane_sums, std::size_t experts,
                       float picks, float offset, float sign, float most, float* counts) {
  float total = 0;
  for (std::size_t i = 0; i < kCountLanes; ++i) {
    total += lane_sums[i];
  }
  const float per_weight = total > 0 ? picks / total : 0.0F;
  Block along, sums{};
  const Block zero{};
  float start = offset;
  for (std::size_t i = 0; i < kCountLanes; ++i) {
    along[i] = start - std::floor(start);
    start += lane_sums[i] * per_weight;
  }
  for (std::size_t at = 0; at < experts; at += kCountLanes) {
    Block weight, chance, count;
    std::memcpy(&weight, from + at, sizeof weight);
    std::memcpy(&chance, chances + at, sizeof chance);
    std::memcpy(&count, counts + at, sizeof count);
    weight = count * sign < most ? weight : zero;
    along += weight * (1.0F - chance) * per_weight;
    const Block whole = __builtin_convertvector(__builtin_convertvector(along, Mask), Block);
    along -= whole;
    count += whole * sign;
    count = count > zero ? count : zero;
    count = count < zero + most ? count : zero + most;
    sums += count;
    std::memcpy(counts + at, &count, sizeof count);
  }
  double sum = 0;
  for (std::size_t i = 0; i < kCountLanes; ++i) {
    sum += static_cast<double>(sums[i]);
  }
  return sum;
}

// What a pick could not bring about, one choice an expert after the other, from `start` on.
void settle(std::span<const float> chances, std::int64_t off, float most, std::size_t start, std::span<float> counts) {
  for (bool moved = true; off != 0 && moved;) {
    moved = false;
    for (std::size_t i = 0; i < counts.size() && off != 0; ++i) {
      const std::size_t e = (start + i) % counts.size();
      const float step = off > 0 ? 1.0F : -1.0F;
      if (chances[e] > 0 && counts[e] + step >= 0 && counts[e] + step <= most) {
        counts[e] += step;
        off -= static_cast<std::int64_t>(step);
        moved = true;
      }
    }
  }
  EPSIM_CHECK(off == 0, "a row of counts could not be made to sum up");
}

// One token after the other, each with top_k choices at equal distances along the chances, in an order of experts that is
// drawn for it: every count is binomial, whatever their number, the row's sum is kept, and with equal chances every set of
// top_k experts is as likely as any other, so that no placement has better luck than another.
void draw_by_token(std::span<const float> chances, int trials, std::uint64_t key, std::span<float> counts) {
  const auto experts = static_cast<std::size_t>(
      std::find_if(chances.rbegin(), chances.rend(), [](float p) { return p > 0; }).base() - chances.begin());
  std::ranges::fill(counts, 0.0F);
  thread_local std::vector<std::uint16_t> order;
  order.resize(experts);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  for (int t = 0; t < trials; ++t) {
    std::uint64_t random = Fingerprint::mix(key + static_cast<std::uint64_t>(t));
    double next = 0x1p-24 * static_cast<double>(random >> 40), along = 0;
    for (std::size_t e = 0; e < experts; ++e) {
      random = random * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
      std::swap(order[e], order[e + (((random >> 32) * (experts - e)) >> 32)]);
      along += static_cast<double>(chances[order[e]]);
      if (along > next) {
        counts[order[e]] += 1.0F;
        next += 1.0;
      }
    }
  }
}

}  // namespace

int count_trials(double tokens, double overdispersion, int top_k, int experts) {
  if (tokens <= 0 || !StepLoads::drawn_as_counts(overdispersion)) {
    return 0;
  }
  const double trials = std::max(1.0, std::round(tokens / overdispersion));
  return trials * top_k < kFewRows * experts ? static_cast<int>(trials) : 0;
}

void draw_choices(std::span<const float> chances, int trials, int top_k, std::uint64_t key, std::span<float> counts) {
  EPSIM_CHECK(chances.size() == counts.size() && counts.size() % kCountLanes == 0, "rows are of whole blocks");
  const double wanted = static_cast<double>(trials) * top_k;
  const auto most = static_cast<float>(trials);
  if (static_cast<std::size_t>(trials) * counts.size() <= kByToken) {
    draw_by_token(chances, trials, key, counts);
    const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
    settle(chances, static_cast<std::int64_t>(wanted - sum), most, key % counts.size(), counts);
    return;
  }
  Sums sums;
  binomial_counts(chances.data(), chances.size(), trials, key, counts.data(), sums);
  const double off = wanted - std::accumulate(std::begin(sums.counts), std::end(sums.counts), 0.0);
  if (off == 0) {
    return;
  }
  const auto picks = static_cast<float>(std::abs(off));
  const float offset = 0x1p-24F * static_cast<float>(Fingerprint::mix(~key) >> 40);
  const bool add = off > 0;
  const double sum = pick(add ? chances.data() : counts.data(), chances.data(), add ? sums.added : sums.taken,
                          counts.size(), picks, offset, add ? 1.0F : -1.0F, most, counts.data());
  if (sum != wanted) {
    settle(chances, static_cast<std::int64_t>(wanted - sum), most, key % counts.size(), counts);
  }
}

}  // namespace epsim
