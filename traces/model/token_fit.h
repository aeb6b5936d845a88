// The part of fit.h that needs single tokens.
#pragma once

#include <cstdint>
#include <span>

#include "traces/model/fit.h"

namespace epsim {

struct TokenTrace {
  const TraceInfo& info;
  std::span<const std::uint16_t> experts;  // [token][layer][k]
  std::span<const std::int32_t> sequence;  // [token]
};

// `m` has the popularity already.
RoutingModel fit_tokens(const TokenTrace& trace, const FitOptions& options, RoutingModel m);

}  // namespace epsim
