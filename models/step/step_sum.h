// Adds pieces of a step up, in whole picoseconds.
#pragma once

#include <array>
#include <cstdint>

#include "models/step/layer_costs.h"
#include "sim/domain/step.h"

namespace epsim {

class StepSum {
 public:
  void add(LayerPart part, const TickCost& piece, std::int64_t times = 1) {
    const std::int64_t time = piece.time.count() * times;
    total_ += time;
    by_part_[static_cast<std::size_t>(part)] += time;
    by_origin_[static_cast<std::size_t>(piece.origin)] += time;
  }
  void wait(Seconds straggler) { straggler_ += straggler; }

  Ticks total() const { return Ticks(total_); }
  StepCost cost() const {
    StepCost out;
    out.total = to_seconds(Ticks(total_));
    for (std::size_t i = 0; i < by_part_.size(); ++i) {
      out.by_part[i] = to_seconds(Ticks(by_part_[i]));
    }
    for (std::size_t i = 0; i < by_origin_.size(); ++i) {
      out.by_origin[i] = to_seconds(Ticks(by_origin_[i]));
    }
    out.straggler = straggler_ < out.total ? straggler_ : out.total;
    return out;
  }

 private:
  std::int64_t total_ = 0;
  std::array<std::int64_t, kLayerParts> by_part_{};
  std::array<std::int64_t, kOrigins> by_origin_{};
  Seconds straggler_{};
};

}  // namespace epsim
