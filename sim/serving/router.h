// Chooses the DP rank of an arriving request.
#pragma once

#include <cstddef>
#include <span>

#include "sim/serving/dp_rank.h"
#include "sim/serving/serving_options.h"

namespace epsim {

class RequestRouter {
 public:
  explicit RequestRouter(Router rule) : rule_(rule) {}
  // Position of the chosen rank; `ranks` is not empty.
  std::size_t pick(std::span<const DpRank> ranks);

 private:
  Router rule_;
  std::size_t next_ = 0;  // round robin
};

}  // namespace epsim
