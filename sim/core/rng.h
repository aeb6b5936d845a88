// Random numbers in named streams. A stream's draws depend on the seed, its name and its indices alone, so adding a
// stream, or drawing more from one, leaves every other stream as it was. The distributions are our own, so that
// compilers and standard libraries agree to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace epsim {

enum class Seed : std::uint64_t {};

// xoshiro256** 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), seeded by SplitMix64.
class RandomStream {
 public:
  RandomStream(Seed seed, std::string_view name, std::uint64_t index = 0, std::uint64_t sub_index = 0);

  std::uint64_t bits() {
    const std::uint64_t result = rotl(s_[1] * 5, 7) * 9;
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }
  // In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  // In [0, n), without bias (Lemire, "Fast random integer generation in an interval", 2019). n must be positive.
  std::uint64_t below(std::uint64_t n);
  double exponential(double mean);
  double normal();                            // mean 0, deviation 1; Box-Muller, both values used
  double gamma(double shape, double scale);   // Marsaglia and Tsang 2000
  double lognormal(double mu, double sigma);  // of the underlying normal
  std::int64_t geometric(double mean);        // >= 1, with the given mean >= 1
  // Every order is equally likely (Fisher and Yates).
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[below(i)]);
    }
  }

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t s_[4];
  double spare_normal_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace epsim
