// What the loss and the return of GPUs did to where experts are.
#pragma once

#include <cstdint>

#include "sim/core/units.h"

namespace epsim {

struct RegroupReport {
  std::int64_t changes = 0;        // times that GPUs went or came back
  std::int64_t remade_copies = 0;  // of an expert of one layer, on GPUs or EP ranks that did not hold it
  Bytes moved{};                   // of these, from other GPUs
  Bytes reloaded{};                // and from outside
  Ticks remaking{};                // for which instances stood still meanwhile

  RegroupReport& operator+=(const RegroupReport& o) {
    changes += o.changes;
    remade_copies += o.remade_copies;
    moved += o.moved;
    reloaded += o.reloaded;
    remaking += o.remaking;
    return *this;
  }
};

}  // namespace epsim
