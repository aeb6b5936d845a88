// HarMoEny's schedule: tokens leave the busiest GPU for the lightest one, whose copy of the expert is fetched on
// demand.
//   Source : sacs-epfl/HarMoEny, scheduler of the harmonymoe layer (arXiv 2506.12417); behaviour only.
//   Models : top-1 routing or any other: only counts matter; any GPU may compute any expert. Experts are fetched from the
//            host's memory, as in the paper's abstract and by the code's default (`fetching_strategy="async-cpu"`,
//            src/harmonymoe/expert_manager.py at 563b5a6): `fetch_from: host`. Each GPU has its own link to it
//            (`host_rate` of gpus.yaml), of which copies reach `copy_efficiency`. `gpu`: from the expert's home.
//   Ignores: links to the host that GPUs share, the host's memory rate, and the code's cache: an expert that one step
//            fetched is fetched again in the next.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/residency.h"

namespace epsim {

struct HarmoenyOptions {
  std::int64_t min_tokens = 150;  // q: fewer tokens than these are not worth an expert's transfer
};

// tokens[source][expert][destination].
struct TokenSchedule {
  int gpus = 0, experts = 0;
  std::vector<std::int64_t> tokens;

  std::int64_t& at(int source, int expert, int destination) { return tokens[offset(source, expert, destination)]; }
  std::int64_t at(int source, int expert, int destination) const { return tokens[offset(source, expert, destination)]; }
  // Who computes what, sources summed.
  TokenAssignment assignment() const;
  std::size_t offset(int source, int expert, int destination) const {
    return (static_cast<std::size_t>(source) * static_cast<std::size_t>(experts) + static_cast<std::size_t>(expert)) *
               static_cast<std::size_t>(gpus) +
           static_cast<std::size_t>(destination);
  }
};

// Starts with every token at its expert's home and moves tokens until no GPU is above the (whole-number) mean or no
// move of at least min_tokens is left. Ties to the lower index.
TokenSchedule harmoeny_schedule(const RequestMatrix& requests, const Residency& home, const HarmoenyOptions& options);

}  // namespace epsim
