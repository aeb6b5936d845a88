#include "calibration/measure/ops.h"

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim::measure {
namespace {

using Values = std::span<const double>;

// groups, groups_hit, rows, rows_max, tiles_64, tiles_128, hidden, intermediate, distribution
template <int kWeightBytes>
Work grouped_gemm_work(Values v) {
  const double hit = v[1], rows = v[2], hidden = v[6], inner = v[7];
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

// batch, new_tokens, context, heads, kv_heads, qk_dim, v_dim; causal over the new tokens
Work prefill_work(Values v) {
  const double queries = v[0] * v[1], keys = v[0] * (v[1] + v[2]);
  const double pairs = v[0] * v[1] * (v[2] + (v[1] + 1) / 2);
  return {Flops(2 * pairs * v[3] * (v[5] + v[6])),
          Bytes(2 * (queries * v[3] * (v[5] + v[6]) + keys * v[4] * (v[5] + v[6]))),
          {},
          1};
}

// batch, context, heads, kv_heads, qk_dim, v_dim, latent. With `latent` 1 the values are the keys' first v_dim entries
// (MLA with absorbed projections), so that they are read once.
Work decode_work(Values v) {
  const double keys = v[0] * v[1];
  const double per_key = v[6] > 0 ? v[4] : v[4] + v[5];
  return {
      Flops(2 * keys * v[2] * (v[4] + v[5])), Bytes(2 * (keys * v[3] * per_key + v[0] * v[2] * (v[4] + v[5]))), {}, 2};
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
Work read_work(Values v) { return {{}, Bytes(v[0]), {}, 1}; }
Work launch_work(Values v) { return {{}, {}, {}, v[0]}; }
Work transfer_work(Values v) { return {{}, {}, Bytes(v[0]), 1}; }
// m, n, k, bytes: a dense product and a copy from the host at once
Work gemm_beside_copy_work(Values v) { return gemm_work<2>(v.first(3)); }
Work copy_beside_gemm_work(Values v) { return {{}, {}, Bytes(v[3]), 1}; }

// bytes, ranks, nodes: what leaves the busiest GPU
Work spread_work(Values v) { return {{}, Bytes(2 * v[0]), Bytes(v[0] * (v[1] - 1) / v[1]), 1}; }
Work all_reduce_work(Values v) { return {{}, Bytes(4 * v[0]), Bytes(2 * v[0] * (v[1] - 1) / v[1]), 1}; }

const std::vector<std::string> kGroupedColumns = {"groups",    "groups_hit", "rows",         "rows_max",    "tiles_64",
                                                  "tiles_128", "hidden",     "intermediate", "distribution"};
const std::vector<std::string> kCollectiveColumns = {"bytes", "ranks", "nodes"};

const std::vector<OpSpec>& table() {
  using K = OpKind;
  static const std::vector<OpSpec> ops = {
      {"grouped_gemm", "MoE FFN of local experts: gate_up, SiLU-mul, down over ragged groups", K::kCompute, "bf16",
       kGroupedColumns, grouped_gemm_work<2>, 30},
      {"grouped_gemm_fp8", "the same with e4m3 operands, one product per group", K::kCompute, "fp8", kGroupedColumns,
       grouped_gemm_work<1>, 8},
      {"gemm",
       "dense product, row-major activations times weights",
       K::kCompute,
       "bf16",
       {"m", "n", "k"},
       gemm_work<2>,
       12},
      {"gemm_fp8",
       "dense product with e4m3 operands and bf16 output",
       K::kCompute,
       "fp8",
       {"m", "n", "k"},
       gemm_work<1>,
       6},
      {"attention_prefill",
       "causal attention of new tokens after a context",
       K::kCompute,
       "bf16",
       {"batch", "new_tokens", "context", "heads", "kv_heads", "qk_dim", "v_dim"},
       prefill_work,
       8},
      {"attention_decode",
       "attention of one new token per sequence over its KV cache",
       K::kCompute,
       "bf16",
       {"batch", "context", "heads", "kv_heads", "qk_dim", "v_dim", "latent"},
       decode_work,
       8},
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
      {"device_copy", "copy inside device memory", K::kMemory, "bytes", {"bytes"}, copy_work, 1},
      {"memory_read", "device memory read once and summed", K::kMemory, "bytes", {"bytes"}, read_work, 1},
      {"launch", "empty kernels launched one by one", K::kLaunch, "bytes", {"launches"}, launch_work, 0.5},
      {"graph_launch", "one graph of empty kernels", K::kLaunch, "bytes", {"launches"}, launch_work, 0.5},
      {"host_to_device", "copy from pinned host memory", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
      {"device_to_host", "copy to pinned host memory", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
      {"peer_copy", "copy from GPU 0 to GPU 1", K::kTransfer, "bytes", {"bytes"}, transfer_work, 1},
      {"gemm_beside_copy",
       "dense product while the host's memory is being copied in",
       K::kCompute,
       "bf16",
       {"m", "n", "k", "bytes"},
       gemm_beside_copy_work,
       1.5},
      {"copy_beside_gemm",
       "copy from the host while dense products run",
       K::kTransfer,
       "bf16",
       {"m", "n", "k", "bytes"},
       copy_beside_gemm_work,
       1.5},
      {"nccl_all_to_all", "grouped sends and receives, equal parts", K::kCollective, "bytes", kCollectiveColumns,
       spread_work, 4},
      {"nccl_all_to_allv", "grouped sends and receives, Zipf-skewed receivers", K::kCollective, "bytes",
       kCollectiveColumns, spread_work, 3},
      {"nccl_all_gather", "ncclAllGather", K::kCollective, "bytes", kCollectiveColumns, spread_work, 2},
      {"nccl_reduce_scatter", "ncclReduceScatter, float sums", K::kCollective, "bytes", kCollectiveColumns, spread_work,
       2},
      {"nccl_all_reduce", "ncclAllReduce, float sums", K::kCollective, "bytes", kCollectiveColumns, all_reduce_work, 2},
  };
  return ops;
}

}  // namespace

std::span<const OpSpec> all_ops() { return table(); }

const OpSpec& find_op(const std::string& name) {
  std::vector<std::string> names;
  for (const OpSpec& op : all_ops()) {
    if (op.name == name) {
      return op;
    }
    names.emplace_back(op.name);
  }
  throw InputError({}, unknown_name("operator", name, names));
}

double value_of(const OpSpec& op, std::span<const double> values, std::string_view column) {
  for (std::size_t c = 0; c < op.columns.size(); ++c) {
    if (op.columns[c] == column) {
      return values[c];
    }
  }
  EPSIM_CHECK(false, std::string(op.name) + " has no column " + std::string(column));
}

}  // namespace epsim::measure
