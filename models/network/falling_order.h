// The places of values in falling order, for arrays of a few hundred that are sorted for every exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

class FallingOrder {
 public:
  // [value] How many values come before it: larger ones, and of those that are equal (to n parts in 2^52) earlier ones.
  // Values are not negative. Valid until the next call.
  const std::vector<std::int64_t>& ranks(std::span<const double> values);

 private:
  std::vector<std::int64_t> keys_, ranks_;
};

}  // namespace epsim
