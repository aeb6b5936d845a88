// Dates with a time of day, as trace files write them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace epsim {

// "2023-11-16 18:15:46.6805900" (or with a T; up to 9 decimals; an offset of +00:00 or Z is passed over) as nanoseconds
// since 1970, in integers throughout: no digit is lost. Nothing when the text is no such date, or its year is not
// within 1970 to 2199 (what an int64 of nanoseconds holds, with room).
std::optional<std::chrono::nanoseconds> parse_timestamp(std::string_view text);

}  // namespace epsim
