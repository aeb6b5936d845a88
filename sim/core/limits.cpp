#include "sim/core/limits.h"

#include <fmt/format.h>

namespace epsim {

std::span<const Limit> limits::all() {
  static constexpr Limit kAll[] = {kDocumentBytes, kResultBytes, kYamlValues, kDepth,       kFolderFiles, kTextLines,
                                   kGpus,          kRowValues,   kStepValues, kTraceValues, kSlots};
  return kAll;
}

std::int64_t product_of(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  bool too_large = false;
  for (const std::int64_t factor : factors) {
    if (factor == 0) {
      return 0;
    }
    too_large = __builtin_mul_overflow(product, factor, &product) || too_large;
  }
  return too_large ? INT64_MAX : product;
}

void check_limit(const Limit& limit, std::int64_t asked, const InputPlace& place) {
  if (asked > limit.most) {
    const std::string number = asked == INT64_MAX ? "2^63 or more" : fmt::format("{}", asked);
    throw InputError(place, fmt::format("{} {}; at most {} are allowed.", number, limit.what, limit.most));
  }
}

}  // namespace epsim
