// The operators that are measured and fitted: what one execution is, and what it must at least do.
//
//   Models : each execution as a few physical terms, in seconds at the data sheet's rates (launch, weight bytes of the
//            touched experts, products of padded rows, activation bytes, KV bytes), and its place among the measured
//            ones, in log2 of a few features. A fit gives each term a coefficient, and each place a correction.
//   Source : kernels' shapes as stated beside the code.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "sim/domain/weight_type.h"

namespace epsim {

enum class OpKind {
  kGroupedGemm,
  kDenseGemm,
  kMlaPrefill,
  kMlaDecode,
  kGqaPrefill,
  kGqaDecode,
  kGate,
  kPermute,
  kUnpermute,
  kActivation,
  kNorm,
  kDeviceCopy,
  kHostToDevice,
  kDeviceToHost,
  kPeerCopy
};

inline constexpr std::size_t kMaxTerms = 5, kMaxAxes = 4;
// What assignments to other GPUs' experts cost a grouped GEMM: a launch, a row of the hidden size and one of the experts' width
// each, read or written in bf16.
inline constexpr std::array<std::string_view, 3> kRemoteTerms = {"launch", "hidden", "intermediate"};

// What an execution is, in the columns of its point table.
struct OpInfo {
  OpKind kind;
  std::string_view name;                          // stem of a point table's op; an OpDtype's suffix may follow
  std::array<std::string_view, 6> parameters;     // columns of the point table, in order; the rest is empty
  std::array<std::string_view, kMaxTerms> terms;  // of the physical model
  std::array<std::string_view, kMaxAxes> axes;    // of the correction
};
std::span<const OpInfo> op_infos();
const OpInfo& op_info(OpKind kind);
// By the name of an operator, with or without its dtype behind it; null when there is none.
const OpInfo* find_op_info(std::string_view op);
std::size_t count_names(std::span<const std::string_view> names);  // that are not empty

// What an operator's weights, or the cache that attention reads, are in.
struct OpDtype {
  std::string_view suffix, name;  // behind the operator's name; in texts
  WeightType type;
};
// The dtype that stands behind the name of an operator; bf16 where none does.
const OpDtype& dtype_of(std::string_view op);
const OpDtype& dtype_of(WeightType type);

// Data-sheet rates the terms are stated in, and bytes per element.
struct OpRates {
  double flops_per_s = 0;
  double bytes_per_s = 0;
  double weight_bytes = 2;  // of weights and KV cache
  double tile_rows = 1;     // rows are padded to whole tiles
};

struct OpPlace {
  std::array<double, kMaxTerms> terms{};  // seconds; "launch" is one microsecond
  std::array<double, kMaxAxes> axes{};    // log2
};

// `p` holds the parameters in the order of OpInfo::parameters:
//   grouped gemm: rows, groups (touched experts), rows_max (of one expert), hidden, intermediate, tokens (rows that
//                 come in and go out; less than rows where a token has several experts here)
//   dense gemm:   m (tokens), n, k
//   attention:    batch, length (new tokens of a sequence; decode: cached tokens), heads [, kv_heads, head_dim]
//   gate:         tokens, hidden, experts, top_k: router logits, softmax and choice
//   (un)permute:  tokens, hidden, top_k: each token's row to its top_k places, or their weighted sum
//   activation:   rows, width: gate half times up half; norm the same
//   copies:       bytes; launches: number of empty kernels one by one, or in one graph
OpPlace op_place(OpKind kind, std::span<const double> p, const OpRates& rates);

inline constexpr double kActivationBytes = 2;  // bf16 in and out, whatever the weights
// How much of the launch term n assignments to other GPUs' experts cost: a few are hidden behind the kernel's own blocks.
double share_of_launch(double assignments);
// Seconds, in the order of kRemoteTerms.
std::array<double, 3> remote_terms(double assignments, double hidden, double intermediate, const OpRates& rates);

// Rows after padding every group to whole tiles. Even groups exactly; uneven ones lose half a tile each on average.
double padded_rows(double rows, double groups, double rows_max, double tile);

}  // namespace epsim
