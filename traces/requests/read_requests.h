// The one door to request traces: a section of the scenario in, a checked trace out.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/request_trace.h"
#include "traces/format/request_table.h"

namespace epsim {

struct RateRange {
  double mean = 0, peak = 0;  // requests/s
};

// Stands beside its reader, in the source's own file.
struct RequestSource {
  std::string_view name, summary;
  RequestTable (*read)(ConfigReader&, Seed);
  std::span<const Key> keys;  // through which it reads
  // Makes as many requests as `count` asks for. The first ones are the same for any count.
  bool generated = false;
  // The key of the rate at which its events start; empty: no single key sets it.
  std::string_view rate_key = {};
  // The key of the requests of each event, where one has several: another rate leaves the times between them as they are.
  std::string_view requests_key = {};
  // Of Poisson arrivals whose rate follows the clock.
  RateRange (*rate_range)(ConfigReader&) = nullptr;
  // The share of the requests of requests_key that arrive; set where that key is.
  double (*arriving_share)(ConfigReader&, Seed) = nullptr;
};

// Every kind of request source, for `list` and for error messages.
std::span<const RequestSource> request_sources();

// Those of the section `requests`.
std::vector<SectionKeys> request_keys();

// The source of the section's kind.
const RequestSource& request_source(ConfigReader& in);

// Reads `kind`, `seed` (instead of `seed` here) and then that kind's own keys; the caller ends with finish(). Equal sections and seeds give equal traces. Throws InputError.
RequestTable read_request_table(ConfigReader& in, Seed seed);

// The same for a run: prefix blocks are checked and numbered (prefix_blocks.h).
RequestTrace read_requests(ConfigReader& in, Seed seed);

}  // namespace epsim
