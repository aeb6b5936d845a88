// The scenario's section `protocol`: how a search of goodput asks a rate.
#pragma once

#include <cstdint>
#include <span>

#include "sim/core/config.h"
#include "sim/core/key.h"
#include "sim/scenario/slo.h"

namespace epsim {

struct Protocol {
  Slo slo;  // where `epsim goodput --slo` gives none
  std::int64_t requests =
      0;  // all of them count, from an empty system on; 0: as many as the verdict needs a steady state
};

std::span<const Key> protocol_keys();

// Throws InputError, as where `requests` or `count` stands without the other.
Protocol read_protocol(ConfigReader in);

}  // namespace epsim
