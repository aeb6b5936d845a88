// Requests as they arrive: what the world asks of the service.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

struct Request {
  Ticks arrival{};                 // since the start of the run
  std::int32_t input_tokens = 0;   // > 0
  std::int32_t output_tokens = 0;  // > 0; the first one comes with the end of the prefill
};

// What requests have in common: the input of request i, and its answer where the trace knows who goes on from it, is cut into
// blocks of `block_tokens` tokens, and equal ids mean equal content of the block and of everything before it. Only blocks that are
// filled are named; an answer's last token fills none, since it is never put into KV memory. Ids are dense: 0 .. distinct - 1.
struct PrefixBlocks {
  int block_tokens = 0;  // 0: the trace says nothing about prefixes, and the rest is empty
  std::int32_t distinct = 0;
  std::vector<std::int64_t> start;  // request i has ids[start[i] .. start[i + 1])
  std::vector<std::int32_t> ids;

  bool known() const { return block_tokens > 0; }
  std::span<const std::int32_t> of(std::size_t request) const {
    if (!known()) {
      return {};
    }
    const auto first = static_cast<std::size_t>(start[request]);
    return std::span(ids).subspan(first, static_cast<std::size_t>(start[request + 1]) - first);
  }
};

// Clients that each send their next request when the last one has ended, as benchmarks with a largest concurrency have
// them. Which client sends a request does not matter: the next one in the trace goes when any request ends.
struct ClosedLoop {
  int concurrency = 0;      // clients; 0: requests arrive at the times of the trace
  std::int64_t warmup = 0;  // first requests that no figure counts; the others start when all of these have ended
  Ticks ramp{};             // the clients begin evenly over this time, at the start and again after the warm-up
};

struct RequestTrace {
  std::string source;             // file or recipe, for reports
  std::vector<Request> requests;  // by arrival time
  PrefixBlocks prefixes{};
  ClosedLoop closed_loop{};  // with clients, arrivals are 0 here: a request arrives when its client sends it
  std::size_t ramp = 0;  // requests at the start, while the source is not steady yet: studies of rates leave them out
  // Turns of conversations: request i is not sent before request turn_before[i] has ended, however early it would arrive; -1: it
  // waits for none. Empty: no request waits.
  std::vector<std::int32_t> turn_before{};

  std::size_t steady() const { return requests.size() - ramp; }  // behind the ramp
  // Throws InputError unless arrivals are in order, every request has input and output tokens, its prefix blocks are ones that
  // its input and answer fill, and a turn comes after the one before it.
  void validate() const;
  // Drops the blocks of answers that are no longer filled once outputs have been cut.
  void drop_unfilled_blocks();
  // The requests at these positions, in this order, with their prefixes. A turn waits for the last one before it that is among
  // them, and stands before it.
  RequestTrace select(std::span<const std::size_t> positions) const;
};

}  // namespace epsim
