// Expert counts of a recording as windows in the order of time, whatever format they are in.
#pragma once

#include <string>
#include <vector>

#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

struct RecordedCounts {
  int experts = 0;
  std::vector<LoadWindow> windows;  // at least one; rows, or tokens, in equal parts
  int layers() const { return windows.front().layers(); }
};

// At most `most` windows. `format` as `epsim trace import --format`; `experts` of a layer, for files that do not say it
// (ids of tokens), 0 where nothing is known. Throws InputError, with the key `experts` where that is missing.
RecordedCounts read_counts(const std::string& file, const std::string& format, int most, int experts = 0);

// Throws InputError unless the windows are counts of the model: its MoE layers and experts, each layer with load, no
// expert with more than one assignment a token.
void check_counts(const RecordedCounts& counts, const MoeSpec& model, const std::string& file);

// The built-in model with that many MoE layers and experts: the first of several, whose names are `all`. Throws
// InputError, which names the option to state, when there is none.
struct ModelOfCounts {
  std::string name;
  std::vector<std::string> all;
};
ModelOfCounts model_of_counts(const RecordedCounts& counts, const std::string& file);

}  // namespace epsim
