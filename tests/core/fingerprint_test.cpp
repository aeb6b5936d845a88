#include "sim/core/fingerprint.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <set>

namespace epsim {
namespace {

std::uint64_t of(std::initializer_list<std::uint64_t> words) {
  Fingerprint f;
  for (const std::uint64_t word : words) {
    f.add(word);
  }
  return f.value();
}
std::uint64_t of_text(std::initializer_list<std::string_view> texts) {
  Fingerprint f;
  for (const std::string_view text : texts) {
    f.add(text);
  }
  return f.value();
}

TEST_CASE("the mix is SplitMix64's finaliser") {
  // The first outputs of SplitMix64 seeded with 0 (Steele, Lea and Flood 2014): the finaliser of multiples of the
  // golden ratio.
  CHECK(Fingerprint::mix(0x9e3779b97f4a7c15ULL) == 0xe220a8397b1dcdafULL);
  CHECK(Fingerprint::mix(2 * 0x9e3779b97f4a7c15ULL) == 0x6e789e6aa1b965f4ULL);
}

TEST_CASE("equal words in equal order give equal fingerprints, and nothing else does") {
  CHECK(of({1, 2, 3}) == of({1, 2, 3}));
  const std::set<std::uint64_t> different = {of({}),     of({0}),       of({0, 0}), of({1}),    of({1, 2}),
                                             of({2, 1}), of({1, 2, 0}), of({3}),    of({~0ULL})};
  CHECK(different.size() == 9);
}

TEST_CASE("a negative number is the word with its bits") {
  Fingerprint f;
  f.add(std::int64_t{-1});
  CHECK(f.value() == of({~0ULL}));
}

TEST_CASE("texts do not run into each other") {
  CHECK(of_text({"ab", "c"}) != of_text({"a", "bc"}));
  CHECK(of_text({"", "a"}) != of_text({"a", ""}));
  CHECK(of_text({"\xff"}) == of({1, 255}));  // the length, then bytes
}

TEST_CASE("single bits of long inputs change the fingerprint") {
  std::set<std::uint64_t> seen;
  for (int bit = 0; bit < 64; ++bit) {
    for (int at = 0; at < 100; ++at) {
      Fingerprint f;
      for (int i = 0; i < 100; ++i) {
        f.add(i == at ? std::uint64_t{1} << bit : std::uint64_t{0});
      }
      seen.insert(f.value());
    }
  }
  CHECK(seen.size() == 6400);
}

TEST_CASE("in hex: 16 digits, zeros kept") {
  CHECK(Fingerprint().hex() == "6a09e667f3bcc908");
  CHECK(Fingerprint().hex().size() == 16);
}

}  // namespace
}  // namespace epsim
