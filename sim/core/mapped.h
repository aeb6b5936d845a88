// A range, element by element, as a new vector.
#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace epsim {

// What `function`, or a member, gives for each element, in order.
template <class Range, class Function>
auto mapped(Range&& range, Function function) {
  std::vector<std::decay_t<std::invoke_result_t<Function&, decltype(*std::begin(range))>>> out;
  for (auto&& element : range) {
    out.push_back(std::invoke(function, std::forward<decltype(element)>(element)));
  }
  return out;
}

}  // namespace epsim
