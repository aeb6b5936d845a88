// The operators that are measured: names, the columns of their points, the work that one execution does.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/units.h"

namespace epsim::measure {

enum class OpKind { kCompute, kMemory, kTransfer, kCollective };

// What one execution must do at least: each input read once, each output written once.
struct Work {
  Flops flops{};
  Bytes bytes{};  // of device memory
  Bytes wire{};   // over the host link or, for collectives, out of the busiest GPU
  double launches = 1;
};

struct OpSpec {
  std::string_view name;
  std::string_view summary;  // one sentence
  OpKind kind = OpKind::kCompute;
  std::string_view dtype;  // of the operands: "bf16", "fp8", "bytes"
  std::vector<std::string> columns;
  Work (*work)(std::span<const double> values) = nullptr;  // in the order of `columns`
  double share = 1;                                        // of the time of a sweep, before normalisation
};

// Every operator, in the order of the documentation.
std::span<const OpSpec> all_ops();
// Throws InputError listing all names, the nearest first.
const OpSpec& find_op(const std::string& name);

// The value of a column; broken invariant when `op` has none of that name.
double value_of(const OpSpec& op, std::span<const double> values, std::string_view column);

// All operators measured with collectives have the columns {bytes, ranks, nodes}; bytes as in nccl-tests: what one rank
// sends in all for all_to_all, what one rank ends up with for all_gather, what it starts with for the reductions.
}  // namespace epsim::measure
