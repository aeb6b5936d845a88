// Ids in the order of what they stand for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace epsim {

// 0 .. count - 1 as `before` orders them; of equal ones the lower first. The ids are of the type of the count.
template <class Id, class Before>
std::vector<Id> sorted_ids(Id count, Before before) {
  std::vector<Id> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), Id{0});
  std::stable_sort(out.begin(), out.end(), before);
  return out;
}

}  // namespace epsim
