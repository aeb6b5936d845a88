// From the prefix blocks of a recording to those that a run can reuse.
#pragma once

#include "sim/domain/request_trace.h"
#include "traces/format/request_table.h"

namespace epsim {

// Numbers the ids from 0 in order of appearance and leaves out blocks that a request's input (with its answer, where the
// table's blocks go on over it) does not fill: what the rest of such a block holds is not known, so that nobody can share it.
//
// An id stands for its block and for all before it (a hash chained over the prefix, as in Mooncake's traces and vLLM's
// block hashes), so that it always follows the same id. Throws InputError naming the request where it does not.
PrefixBlocks chain_prefix_blocks(const RequestTable& table);

}  // namespace epsim
