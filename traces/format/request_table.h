// Requests with all that recordings know of them, as recorded; a RequestTrace holds what a run uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/domain/request_trace.h"

namespace epsim {

struct RequestTable {
  RequestTrace trace;
  // Prefix-cache blocks: request i uses blocks prefix_blocks[prefix_start[i] .. prefix_start[i + 1]), equal ids being
  // equal content. Empty when the recording has none.
  std::vector<std::int64_t> prefix_start;
  std::vector<std::int64_t> prefix_blocks;
  int block_tokens = 0;  // tokens of a block; 0 without blocks
  bool answers = false;  // the blocks go on over the request's answer; else they end with its input
};

}  // namespace epsim
