// A hash of what a run did, in the order it did it: same seed, same fingerprint, on any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace epsim {

// Order-sensitive 64-bit hash of integers (each word is mixed as in SplitMix64's finaliser).
class Fingerprint {
 public:
  void add(std::uint64_t word) { state_ = mix(state_ ^ mix(word + 0x9e3779b97f4a7c15ULL)); }
  void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  void add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    for (const char c : text) {
      add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    }
  }
  std::uint64_t value() const { return state_; }
  std::string hex() const;

  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_ = 0x6a09e667f3bcc908ULL;
};

}  // namespace epsim
