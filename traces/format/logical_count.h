// The JSON layout of SGLang's expert-load files, read as a stream of rows.
#pragma once

#include <functional>
#include <span>

#include "traces/format/text_input.h"

namespace epsim {

struct LogicalCountEvents {
  std::function<void(int row, std::span<const double> counts)> row;  // `row` within its step
  std::function<void(int rows)> step;                                // after the last row of a step
};

// Parses {"logical_count": [layer][expert]} or [step][layer][expert]; a table without steps is one step. Other keys are
// passed over. Throws InputError on broken JSON, anything but finite numbers >= 0, rows of more than 65536 values and
// steps of more than 4096 rows; what the consumers throw passes through.
void parse_logical_count(ByteInput& input, const LogicalCountEvents& events);

}  // namespace epsim
