// Chooses the DP rank of an arriving request.
//
//   cache_aware : the rank whose prefix cache holds most of the request's input, when that is over half of it and the
//                 ranks are balanced; else the least loaded one. Balanced: the most loaded rank has at most 1.5 x as
//                 many unfinished requests' tokens as the least loaded one.
//   Source : sgl-project/sglang sgl-router v0.1.4, src/policies/cache_aware.rs and its README: cache threshold 0.5,
//            relative balance threshold 1.5 (the balance in requests there, here in tokens; its approximate tree is the
//            router's own guess of what a worker holds, here the truth).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/serving/dp_rank.h"
#include "sim/serving/serving_options.h"

namespace epsim {

class RequestRouter {
 public:
  explicit RequestRouter(Router rule) : rule_(rule) {}
  // Position of the chosen rank; `ranks` is not empty.
  std::size_t pick(std::span<const DpRank> ranks, std::int32_t request);

 private:
  Router rule_;
  std::size_t next_ = 0;  // round robin
};

}  // namespace epsim
