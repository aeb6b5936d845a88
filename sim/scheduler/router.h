// Chooses the DP rank of an arriving request, or the instance (deployment.h).
//
//   least_requests: of ranks with as few, the next in turn. vLLM has as many API servers as DP ranks, each of which begins to look
//                 at another (v1/engine/core_client.py, eng_start_index).
//   random : SGLang's prefill instances take the rank that follows from the number of the transfer, bootstrap_room, which its
//                 routers draw (--load-balance-method auto: follow_bootstrap_room, its pull request 16110).
//   even_requests : as the engine does with one new request at a time. It assigns those that came in a step together, the
//                 longest first, and keeps back what exceeds its ranks' largest batches until one has room.
//   cache_aware : the rank whose prefix cache holds most of the request's input, when that is over 30 % of it; else the one
//                 with the fewest unfinished requests. That one too where ranks are out of balance: the most loaded has
//                 over 64 requests more, and over 1.5 times as many. Of ranks that hold as much, the one with the fewest requests; the
//                 gateway takes any of them (tree.rs, prefix_match).
//   Source : sgl-project/sglang v0.5.9, sgl-model-gateway/src/policies/cache_aware.rs, and the defaults of its
//            command line (src/main.rs, router_args.py). Its approximate tree is the router's own guess of what a
//            worker holds, here the truth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sim/core/rng.h"
#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What is known of a rank or an instance that could take a request.
struct RouterChoice {
  RankLoad load;
  std::int64_t cached_tokens = 0;  // of the request's input; 0 throughout but for cache_aware
};

// The choice of any rule but round_robin and random, which need no figures. `choices` is not empty.
std::size_t pick_choice(Router rule, std::span<const RouterChoice> choices, std::int64_t input_tokens);
// Of `count` > 0 for a request, drawn from the seed by the request's number. `stream`: the draws' name; instances and their ranks
// have one each, those that decode for others too.
std::size_t pick_random(Seed seed, std::string_view stream, std::size_t count, std::int32_t request);

class RequestRouter {
 public:
  explicit RequestRouter(const ServingOptions& options)
      : rule_(options.router),
        seed_{options.seed},
        stream_(options.role == InstanceRole::kDecode ? "router.decode_ranks" : "router.ranks") {}
  // Position of the chosen rank; one of `ranks` is alive.
  std::size_t pick(std::span<const std::unique_ptr<Scheduler>> ranks, std::int32_t request);

 private:
  Router rule_;
  Seed seed_;
  std::string_view stream_;            // of random
  std::size_t next_ = 0;               // round robin; where least_requests begins to look
  std::vector<RouterChoice> choices_;  // scratch: of the ranks that are alive
  std::vector<std::size_t> alive_;     // likewise: their positions
};

}  // namespace epsim
