// What an input may ask for at most, in one table: docs/limits.md shows it. Checked before memory is taken.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "sim/core/error.h"

namespace epsim {

struct Limit {
  std::string_view what;  // as a message says it, after a number
  std::int64_t most;
};

namespace limits {

inline constexpr std::int64_t kMebi = std::int64_t{1} << 20;
inline constexpr Limit kDocumentBytes{"bytes in a document (a scenario, a request, a plan, a model)", 64 * kMebi};
inline constexpr Limit kResultBytes{"bytes in a file of results", 1024 * kMebi};
inline constexpr Limit kYamlValues{"values in a YAML document, with what its aliases repeat", kMebi};
inline constexpr Limit kDepth{"levels of nesting in a document", 100};
inline constexpr Limit kFolderFiles{"files in a folder that is read as one input", 65536};
inline constexpr Limit kTextLines{"lines in a text file", INT32_MAX};
inline constexpr Limit kGpus{"GPUs in a deployment", 65536};
inline constexpr Limit kRowValues{"counts in one row of loads (layers x sources x experts)", 16 * kMebi};
inline constexpr Limit kStepValues{"counts in a window that keeps its steps (steps x layers x experts)", 256 * kMebi};
inline constexpr Limit kTraceValues{
    "values in a generated trace (rows x layers x sources x experts, or tokens x layers "
    "x top-k)",
    std::int64_t{1} << 36};
inline constexpr Limit kSlots{"slots in a plan (layers x physical experts)", 16 * kMebi};

// All of them, as docs/limits.md lists them.
std::span<const Limit> all();

}  // namespace limits

// The product of sizes that are not negative; INT64_MAX where it is larger, which is above every limit.
std::int64_t product_of(std::initializer_list<std::int64_t> factors);

// Throws InputError at `place` when `asked` is more than the limit.
void check_limit(const Limit& limit, std::int64_t asked, const InputPlace& place);

}  // namespace epsim
