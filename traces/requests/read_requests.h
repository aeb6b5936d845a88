// The one door to request traces: a section of the scenario in, a checked trace out.
#pragma once

#include <span>
#include <string_view>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/request_trace.h"
#include "traces/format/request_table.h"

namespace epsim {

struct RequestSource {
  std::string_view name, summary;
  RequestTable (*read)(ConfigReader&, Seed);
  // Makes as many requests as `count` asks for. The first ones are the same for any count.
  bool generated = false;
};

// Every kind of request source, for `list` and for error messages.
std::span<const RequestSource> request_sources();

// Whether the kind is one that makes requests by rule. False for unknown ones.
bool is_generated(std::string_view kind);

// Reads the key `kind`, the optional key `seed` (instead of `seed` here) and then that kind's own keys; the caller ends
// with finish(). Equal sections and seeds give equal traces. Throws InputError.
RequestTable read_request_table(ConfigReader& in, Seed seed);

// The same for a run: prefix blocks are checked and numbered (prefix_blocks.h).
RequestTrace read_requests(ConfigReader& in, Seed seed);

}  // namespace epsim
