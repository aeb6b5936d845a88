// What one of several instances is sent by a router that goes by prefixes.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/domain/request_trace.h"

namespace epsim {

// Positions, in order, of the requests that one of `instances` > 0 gets from a router of kind cache_aware (router.h), each of which
// keeps all that it has seen, where load is the number of requests sent so far: of them, the one whose number is closest to an
// even share. `trace` has prefixes. A conversation stays on one instance, which requests taken in turn would scatter.
std::vector<std::size_t> prefix_share(const RequestTrace& trace, std::size_t instances);

}  // namespace epsim
