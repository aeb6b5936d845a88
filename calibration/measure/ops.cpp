#include "calibration/measure/ops.h"

#include "sim/core/check.h"
#include "sim/core/named.h"

namespace epsim::measure {
namespace {

using Values = std::span<const double>;

// rows, groups, rows_max, hidden, intermediate, tokens, local_experts, tiles_64, tiles_128, distribution; `groups` are
// those with rows, and tokens equals rows: every row is read and written once.
template <int kWeightBytes>
Work grouped_gemm_work(Values v) {
  const double rows = v[0], hit = v[1], hidden = v[3], inner = v[4];
  const double weights = hit * 3 * hidden * inner * kWeightBytes;
  const double activations =
      rows * (hidden * kWeightBytes + 2 * inner * 2 + inner * 2 + inner * kWeightBytes + hidden * 2);
  return {Flops(rows * 6 * hidden * inner), Bytes(weights + activations), {}, 3};
}

// m, n, k
template <int kBytes>
Work gemm_work(Values v) {
  return {Flops(2 * v[0] * v[1] * v[2]), Bytes((v[0] * v[2] + v[2] * v[1]) * kBytes + v[0] * v[1] * 2), {}, 1};
}

// tokens, hidden, experts, top_k
Work gate_work(Values v) {
  return {Flops(2 * v[0] * v[1] * v[2]), Bytes(2 * (v[0] * v[1] + v[1] * v[2]) + v[0] * (4 * v[2] + 8 * v[3])), {}, 2};
}

// tokens, hidden, top_k
Work permute_work(Values v) { return {{}, Bytes(2 * v[0] * v[1] * (1 + v[2])), {}, 1}; }
// rows, width: reads gate and up, writes their product
Work activation_work(Values v) { return {Flops(v[0] * v[1] * 4), Bytes(2 * v[0] * v[1] * 3), {}, 1}; }
Work norm_work(Values v) { return {Flops(v[0] * v[1] * 4), Bytes(2 * v[0] * v[1] * 2), {}, 1}; }
Work copy_work(Values v) { return {{}, Bytes(2 * v[0]), {}, 1}; }
Work transfer_work(Values v) { return {{}, {}, Bytes(v[0]), 1}; }

// bytes, ranks, nodes: what leaves the busiest GPU
Work spread_work(Values v) { return {{}, Bytes(2 * v[0]), Bytes(v[0] * (v[1] - 1) / v[1]), 1}; }
Work all_reduce_work(Values v) { return {{}, Bytes(4 * v[0]), Bytes(2 * v[0] * (v[1] - 1) / v[1]), 1}; }

const std::vector<std::string> kGroupedColumns = {"rows",   "groups",        "rows_max", "hidden",    "intermediate",
                                                  "tokens", "local_experts", "tiles_64", "tiles_128", "distribution"};
const std::vector<std::string> kCollectiveColumns = {"bytes", "ranks", "nodes"};

using K = OpKind;

// Products.
std::vector<OpSpec> gemm_ops() {
  return {
      {"grouped_gemm", "MoE FFN of local experts: gate_up, SiLU-mul, down over ragged groups", K::kCompute, "bf16",
       kGroupedColumns, grouped_gemm_work<2>, 30},
      {"grouped_gemm_fp8", "the same with e4m3 operands, one product per group", K::kCompute, "fp8", kGroupedColumns,
       grouped_gemm_work<1>, 8},
      {"dense_gemm",
       "dense product, row-major activations times weights",
       K::kCompute,
       "bf16",
       {"m", "n", "k"},
       gemm_work<2>,
       12},
      {"dense_gemm_fp8",
       "dense product with e4m3 operands and bf16 output",
       K::kCompute,
       "fp8",
       {"m", "n", "k"},
       gemm_work<1>,
       6},
  };
}

// What happens to tokens between the products.
std::vector<OpSpec> token_ops() {
  return {
      {"gate",
       "router logits and top-k with softmax over the chosen",
       K::kCompute,
       "bf16",
       {"tokens", "hidden", "experts", "top_k"},
       gate_work,
       3},
      {"permute",
       "each token's row copied to its top-k places, grouped by expert",
       K::kMemory,
       "bf16",
       {"tokens", "hidden", "top_k"},
       permute_work,
       2},
      {"unpermute",
       "weighted sum of each token's top-k rows",
       K::kMemory,
       "bf16",
       {"tokens", "hidden", "top_k"},
       permute_work,
       2},
      {"activation",
       "SiLU of the gate half times the up half",
       K::kMemory,
       "bf16",
       {"rows", "width"},
       activation_work,
       2},
      {"norm", "RMS norm of rows", K::kMemory, "bf16", {"rows", "width"}, norm_work, 2},
  };
}

// Memory, the host and the neighbour.
std::vector<OpSpec> device_ops() {
  return {
      {"device_copy", "copy inside device memory", K::kMemory, "bytes", {"bytes"}, copy_work, 1},
      {"host_to_device", "copy from pinned host memory", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
      {"device_to_host", "copy to pinned host memory", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
      {"peer_copy", "copy from GPU 0 to GPU 1", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
  };
}

// NCCL.
std::vector<OpSpec> collective_ops() {
  return {
      {"nccl_all_to_all", "grouped sends and receives, equal parts", K::kCollective, "bytes", kCollectiveColumns,
       spread_work, 4},
      {"nccl_all_to_allv", "grouped sends and receives, Zipf-skewed receivers", K::kCollective, "bytes",
       kCollectiveColumns, spread_work, 3},
      {"nccl_all_gather", "ncclAllGather", K::kCollective, "bytes", kCollectiveColumns, spread_work, 2},
      {"nccl_reduce_scatter", "ncclReduceScatter, float sums", K::kCollective, "bytes", kCollectiveColumns, spread_work,
       2},
      {"nccl_all_reduce", "ncclAllReduce, float sums", K::kCollective, "bytes", kCollectiveColumns, all_reduce_work, 2},
  };
}

const std::vector<OpSpec>& table() {
  static const std::vector<OpSpec> ops = [] {
    std::vector<OpSpec> all;
    for (const auto& family : {gemm_ops(), token_ops(), device_ops(), collective_ops()}) {
      all.insert(all.end(), family.begin(), family.end());
    }
    return all;
  }();
  return ops;
}

}  // namespace

std::span<const OpSpec> all_ops() { return table(); }

const OpSpec& find_op(const std::string& name) { return require_named(all_ops(), "operator", name, {}); }

double value_of(const OpSpec& op, std::span<const double> values, std::string_view column) {
  for (std::size_t c = 0; c < op.columns.size(); ++c) {
    if (op.columns[c] == column) {
      return values[c];
    }
  }
  EPSIM_CHECK(false, std::string(op.name) + " has no column " + std::string(column));
}

}  // namespace epsim::measure
