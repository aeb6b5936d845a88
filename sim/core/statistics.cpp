#include "sim/core/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace epsim {
namespace {

// Whole numbers in the order of the doubles that they stand for, and back.
constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
std::uint64_t key_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
double value_of(std::uint64_t key) { return std::bit_cast<double>((key & kSign) != 0 ? key ^ kSign : ~key); }

// A sample that is looked for digit by digit, as in a radix sort.
struct Sought {
  std::uint64_t known = 0;   // leading digits of its key
  std::size_t position = 0;  // among the samples that have these
};
constexpr int kDigitBits = 16;

// Finds the next digit of all: those `shift` bits up in the key.
void find_digit(const SampleParts& samples, int shift, std::span<Sought> sought) {
  std::vector<std::uint64_t> known;
  for (const Sought& s : sought) {
    if (known.empty() || known.back() != s.known) {  // they ascend
      known.push_back(s.known);
    }
  }
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  std::vector<std::vector<std::size_t>> counts(known.size(), std::vector<std::size_t>(kDigits));
  samples([&](std::span<const double> part) {
    for (const double x : part) {
      const std::uint64_t digits = key_of(x) >> shift;
      for (std::size_t k = 0; k < known.size(); ++k) {
        counts[k][digits % kDigits] += digits >> kDigitBits == known[k] ? 1 : 0;
      }
    }
  });
  for (Sought& s : sought) {
    const auto k = static_cast<std::size_t>(std::find(known.begin(), known.end(), s.known) - known.begin());
    std::size_t digit = 0;
    for (; s.position >= counts[k][digit]; ++digit) {
      s.position -= counts[k][digit];
    }
    s.known = s.known << kDigitBits | digit;
  }
}

}  // namespace

std::size_t quantile_position(double q, std::size_t n) {
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(q * static_cast<double>(n))));
  return std::min(rank, n) - 1;
}

Summary summarize(std::vector<double> samples) {
  Summary out;
  if (samples.empty()) {
    return out;
  }
  double sum = 0.0;  // in arrival order, so that the mean does not depend on the sort
  for (const double x : samples) {
    sum += x;
  }
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) { return samples[quantile_position(q, samples.size())]; };
  out.count = static_cast<std::int64_t>(samples.size());
  out.mean = sum / static_cast<double>(samples.size());
  out.p50 = at(0.50);
  out.p90 = at(0.90);
  out.p95 = at(0.95);
  out.p99 = at(0.99);
  out.max = samples.back();
  return out;
}

Summary summarize_parts(const SampleParts& samples) {
  Summary out;
  std::size_t count = 0;
  double sum = 0.0, max = -std::numeric_limits<double>::infinity();
  samples([&](std::span<const double> part) {
    count += part.size();
    for (const double x : part) {
      sum += x;
      max = std::max(max, x);
    }
  });
  if (count == 0) {
    return out;
  }
  std::array<Sought, 4> sought{};
  const std::array<double, 4> shares{0.50, 0.90, 0.95, 0.99};
  std::transform(shares.begin(), shares.end(), sought.begin(),
                 [&](double q) { return Sought{.position = quantile_position(q, count)}; });
  for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    find_digit(samples, shift, sought);
  }
  out.count = static_cast<std::int64_t>(count);
  out.mean = sum / static_cast<double>(count);
  out.p50 = value_of(sought[0].known);
  out.p90 = value_of(sought[1].known);
  out.p95 = value_of(sought[2].known);
  out.p99 = value_of(sought[3].known);
  out.max = max;
  return out;
}

Summary WeightedSamples::summary() {
  Summary out;
  if (entries_.empty()) {
    return out;
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.value < b.value; });
  out.count = count_;
  out.mean = sum_ / static_cast<double>(count_);
  const auto at = [&](double q) {
    const double rank = std::max(1.0, std::ceil(q * static_cast<double>(count_)));
    std::int64_t seen = 0;
    for (const Entry& e : entries_) {
      seen += e.weight;
      if (static_cast<double>(seen) >= rank) {
        return e.value;
      }
    }
    return entries_.back().value;
  };
  out.p50 = at(0.50);
  out.p90 = at(0.90);
  out.p95 = at(0.95);
  out.p99 = at(0.99);
  out.max = entries_.back().value;
  return out;
}

double student_t_95(int degrees_of_freedom) {
  // Table of the 0.975 quantile; beyond 30 the normal value plus its first correction, 1.96 + 2.4 / n, is within 0.2 %.
  static constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                      2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                      2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees_of_freedom < 1) {
    return std::numeric_limits<double>::infinity();
  }
  return degrees_of_freedom <= 30 ? kTable[degrees_of_freedom - 1] : 1.96 + 2.4 / degrees_of_freedom;
}

double batch_means_half_width(std::span<const double> samples, int batches) {
  const std::size_t per_batch = batches > 0 ? samples.size() / static_cast<std::size_t>(batches) : 0;
  if (batches < 2 || per_batch == 0) {
    return std::numeric_limits<double>::infinity();
  }
  RunningStats means;
  for (int b = 0; b < batches; ++b) {
    RunningStats batch;
    for (std::size_t i = 0; i < per_batch; ++i) {
      batch.add(samples[static_cast<std::size_t>(b) * per_batch + i]);
    }
    means.add(batch.mean());
  }
  return student_t_95(batches - 1) * std::sqrt(means.variance() / batches);
}

double trend_t(std::span<const double> series, int cosines) {
  if (cosines < 1 || series.size() < 2 * static_cast<std::size_t>(cosines) + 2) {
    return 0;
  }
  const auto n = static_cast<double>(series.size());
  const double middle = (n - 1) / 2;
  double line = 0, waves = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    line += series[i] * (static_cast<double>(i) - middle);
  }
  for (int k = 1; k <= cosines; ++k) {
    double wave = 0;
    for (std::size_t i = 0; i < series.size(); ++i) {
      wave += series[i] * std::cos(2 * std::numbers::pi * k * (static_cast<double>(i) + 0.5) / n);
    }
    waves += wave * wave;
  }
  // Sums of squares of the line and of every wave: n (n^2 - 1) / 12 and n / 2.
  const double trend = line / std::sqrt(n * (n * n - 1) / 12), noise = std::sqrt(waves / cosines / (n / 2));
  return trend == 0 ? 0 : trend / noise;
}

}  // namespace epsim
