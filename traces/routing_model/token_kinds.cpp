#include "traces/routing_model/token_kinds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/sorted_ids.h"
#include "traces/routing_model/quick_sum.h"

namespace epsim {

namespace {

constexpr float kMostChance = 0.9995F;  // above it the race has no finite rate worth the name
constexpr double kMostOfAKind = 0.9;    // of a kind's tokens that an expert should be needed by
constexpr int kScalings = 30;           // each halves the misfit and more

// Which kinds each expert belongs to, [kind][expert]: dealt in a random order to the kinds with the least popularity so
// far, to as many as it takes for no expert to be needed by nearly every token of a kind. By the popularity that all
// windows have in common: dealt by a window's own, experts would go together with others in each.
std::vector<bool> homes(std::span<const double> popularity, int top_k, std::size_t kinds, RandomStream& random) {
  const std::size_t width = popularity.size();
  std::vector<std::size_t> order(width);
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(order);
  std::vector<double> load(kinds, 0.0);
  std::vector<bool> home(kinds * width, false);
  for (const std::size_t e : order) {
    const double wanted = std::ceil(popularity[e] * top_k * static_cast<double>(kinds) / kMostOfAKind);
    const auto count = static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(kinds)));
    const std::vector<std::size_t> by_load =
        sorted_ids(kinds, [&](std::size_t a, std::size_t b) { return load[a] < load[b]; });
    for (std::size_t i = 0; i < count; ++i) {
      home[by_load[i] * width + e] = true;
      load[by_load[i]] +=
          static_cast<double>(race_rate(static_cast<float>(popularity[e] * top_k))) / static_cast<double>(count);
    }
  }
  return home;
}

// Scales preferences [kind][expert] so that every kind sums to 1 and every expert, over kinds, to `experts` x kinds.
void scale_both_ways(std::vector<float>& rows, std::span<const float> experts, std::size_t kinds) {
  const std::size_t width = experts.size();
  for (int round = 0; round < kScalings; ++round) {
    for (std::size_t e = 0; e < width; ++e) {
      double sum = 0;
      for (std::size_t c = 0; c < kinds; ++c) {
        sum += static_cast<double>(rows[c * width + e]);
      }
      const auto scale = static_cast<float>(static_cast<double>(experts[e]) * static_cast<double>(kinds) / sum);
      for (std::size_t c = 0; c < kinds; ++c) {
        rows[c * width + e] *= scale;
      }
    }
    for (std::size_t c = 0; c < kinds; ++c) {
      const std::span<float> row(rows.data() + c * width, width);
      const auto sum = static_cast<float>(std::accumulate(row.begin(), row.end(), 0.0));
      for (float& x : row) {
        x /= sum;
      }
    }
  }
}

}  // namespace

float race_rate(float p) {
  if (p < 0.05F) {  // five terms: within 3e-9
    return p * (1.0F + p * (0.5F + p * (1.0F / 3 + p * (0.25F + p * 0.2F))));
  }
  if (p < 0.5F) {  // 2 artanh(p / (2 - p)), six terms: within 1e-7
    const float y = p / (2.0F - p), y2 = y * y;
    return 2.0F * y * (1.0F + y2 * (1.0F / 3 + y2 * (1.0F / 5 + y2 * (1.0F / 7 + y2 * (1.0F / 9 + y2 * (1.0F / 11))))));
  }
  return static_cast<float>(-std::log1p(-static_cast<double>(std::min(p, kMostChance))));
}

TokenKinds::TokenKinds(const RoutingLaw& law)
    : kinds_(law.model().kind_share > 0 ? static_cast<std::size_t>(law.model().kinds) : 0),
      share_(static_cast<float>(law.model().kind_share)),
      preference_(static_cast<std::size_t>(law.layers()) * kinds_ * law.experts()) {
  const auto width = static_cast<std::size_t>(law.experts());
  std::vector<float> rows(kinds_ * width), shares(width);
  for (int l = 0; l < law.layers() && kinds_ > 0; ++l) {
    float sum = 0;
    for (std::size_t e = 0; e < width; ++e) {
      shares[e] = std::max(1e-9F, race_rate(static_cast<float>(law.popularity(l)[e] * law.top_k())));
      sum += shares[e];
    }
    for (float& x : shares) {
      x /= sum;
    }
    RandomStream random(Seed{law.model().pattern_seed}, "model.kinds",
                        static_cast<std::uint64_t>(law.model().layers[l].number));
    const std::vector<bool> home = homes(law.lasting_popularity(l), law.top_k(), kinds_, random);
    // Preferences have two values, of mean 0 and variance 1 over the kinds.
    const double own = std::sqrt(static_cast<double>(kinds_) - 1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double g = home[i] ? own : -1 / own;
      rows[i] = shares[i % width] * static_cast<float>(std::exp(law.model().kind_sigma * g));
    }
    scale_both_ways(rows, shares, kinds_);
    float* to = preference_.data() + static_cast<std::size_t>(l) * rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      to[i] = rows[i] / shares[i % width];
    }
  }
}

void TokenKinds::weights(int layer, std::size_t kind, std::span<const float> rates, std::span<float> out) const {
  const float* preference = preference_.data() + (static_cast<std::size_t>(layer) * kinds_ + kind) * out.size();
  for (std::size_t e = 0; e < out.size(); ++e) {
    out[e] = rates[e] * preference[e];
  }
  const float with = share_ / quick_sum(out), without = (1 - share_) / quick_sum(rates);
  for (std::size_t e = 0; e < out.size(); ++e) {
    out[e] = out[e] * with + rates[e] * without;
  }
}

}  // namespace epsim
