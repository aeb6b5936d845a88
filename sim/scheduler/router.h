// Chooses the DP rank of an arriving request, or the instance (deployment.h).
//
//   even_requests : as the engine does with one new request at a time. It assigns those that came in a step together, the
//                 longest first, and keeps back what exceeds its ranks' largest batches until one has room.
//   cache_aware : the rank whose prefix cache holds most of the request's input, when that is over 30 % of it; else the one
//                 with the fewest unfinished requests. That one too where ranks are out of balance: the most loaded has
//                 over 64 requests more, and over 1.5 times as many.
//   Source : sgl-project/sglang v0.5.9, sgl-model-gateway/src/policies/cache_aware.rs, and the defaults of its
//            command line (src/main.rs, router_args.py). Its approximate tree is the router's own guess of what a
//            worker holds, here the truth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What is known of a rank or an instance that could take a request.
struct RouterChoice {
  RankLoad load;
  std::int64_t cached_tokens = 0;  // of the request's input; 0 throughout but for cache_aware
};

// The choice of any rule but round_robin, which needs no figures. `choices` is not empty.
std::size_t pick_choice(Router rule, std::span<const RouterChoice> choices, std::int64_t input_tokens);

class RequestRouter {
 public:
  explicit RequestRouter(Router rule) : rule_(rule) {}
  // Position of the chosen rank; one of `ranks` is alive.
  std::size_t pick(std::span<const std::unique_ptr<Scheduler>> ranks, std::int32_t request);

 private:
  Router rule_;
  std::size_t next_ = 0;               // round robin
  std::vector<RouterChoice> choices_;  // scratch: of the ranks that are alive
  std::vector<std::size_t> alive_;     // likewise: their positions
};

}  // namespace epsim
