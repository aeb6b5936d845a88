#include "models/profile/op_shapes.h"

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr OpInfo gqa_prefill_of(std::string_view name) {
  return {OpKind::kGqaPrefill,
          name,
          {"batch", "length", "heads", "kv_heads", "head_dim"},
          {"launch", "bytes", "products"},
          {"length", "batch", "heads", "queries_per_kv_head"}};
}
constexpr OpInfo gqa_decode_of(std::string_view name) {
  return {OpKind::kGqaDecode,
          name,
          {"batch", "length", "heads", "kv_heads", "head_dim"},
          {"launch", "bytes", "products", "sequences"},
          {"length", "batch", "kv_heads", "queries_per_kv_head"}};
}

// In the order of OpKind; behind those the same operators of heads that are not 128 wide.
constexpr std::array<OpInfo, 19> kOps = {{
    {OpKind::kGroupedGemm,
     "grouped_gemm",
     {"rows", "groups", "rows_max", "hidden", "intermediate", "tokens"},
     {"launch", "weights", "products", "activations", "tokens"},
     {"rows_per_group", "groups", "expert_weights", "skew"}},
    {OpKind::kDenseGemm, "dense_gemm", {"m", "n", "k"}, {"launch", "bytes", "products"}, {"m", "n", "k"}},
    {OpKind::kMlaPrefill,
     "mla_prefill",
     {"batch", "length", "heads"},
     {"launch", "bytes", "products"},
     {"length", "batch", "heads"}},
    {OpKind::kMlaDecode,
     "mla_decode",
     {"batch", "length", "heads"},
     {"launch", "bytes", "products", "sequences"},
     {"length", "batch", "heads"}},
    gqa_prefill_of("gqa_prefill"),
    gqa_decode_of("gqa_decode"),
    {OpKind::kGate,
     "gate",
     {"tokens", "hidden", "experts", "top_k"},
     {"launch", "bytes", "products"},
     {"tokens", "router_weights"}},
    {OpKind::kPermute, "permute", {"tokens", "hidden", "top_k"}, {"launch", "bytes"}, {"bytes"}},
    {OpKind::kUnpermute, "unpermute", {"tokens", "hidden", "top_k"}, {"launch", "bytes"}, {"bytes"}},
    {OpKind::kActivation, "activation", {"rows", "width"}, {"launch", "bytes"}, {"rows", "width"}},
    {OpKind::kNorm, "norm", {"rows", "width"}, {"launch", "bytes"}, {"rows", "width"}},
    {OpKind::kDeviceCopy, "device_copy", {"bytes"}, {"launch", "bytes"}, {"bytes"}},
    {OpKind::kHostToDevice, "host_to_device", {"bytes"}, {"launch", "bytes"}, {"bytes"}},
    {OpKind::kDeviceToHost, "device_to_host", {"bytes"}, {"launch", "bytes"}, {"bytes"}},
    {OpKind::kPeerCopy, "peer_copy", {"bytes"}, {"launch", "bytes"}, {"bytes"}},
    gqa_prefill_of("gqa_prefill_64"),
    gqa_decode_of("gqa_decode_64"),
    gqa_prefill_of("gqa_prefill_256"),
    gqa_decode_of("gqa_decode_256"),
}};

constexpr std::array<OpDtype, 5> kDtypes = {{{"_fp8", "fp8", WeightType::kFp8},
                                             {"_fp4", "nvfp4", WeightType::kFp4},
                                             {"_mxfp4", "mxfp4", WeightType::kMxfp4},
                                             {"_int4", "int4", WeightType::kInt4},
                                             {"", "bf16", WeightType::kBf16}}};

// DeepSeek's multi-head latent attention: a query and key of 128 + 64, a value of 128; the cached latent is 512 + 64.
constexpr double kMlaQueryWidth = 192, kMlaValueWidth = 128, kMlaLatent = 512, kMlaRope = 64;
constexpr double kMicrosecond = 1e-6;

OpPlace grouped_gemm(std::span<const double> p, const OpRates& r) {
  const auto [rows, groups, most] = std::array{p[0], p[1], p[2]};
  const double hidden = p[3], inter = p[4], weights = hidden * inter;
  const double padded = padded_rows(rows, groups, most, r.tile_rows);
  // Gathered, two projections out, the activation in and out, the result, and its sum over a token's experts.
  const double moved = rows * (3 * hidden + 4 * inter) * kActivationBytes;
  return {{kMicrosecond, groups * 3 * weights * r.weight_bytes / r.bytes_per_s, 6 * weights * padded / r.flops_per_s,
           moved / r.bytes_per_s, p[5] * 2 * hidden * kActivationBytes / r.bytes_per_s},
          {std::log2(rows / groups), std::log2(groups), std::log2(weights),
           std::log2(std::max(1.0, most * groups / rows))}};
}

OpPlace dense_gemm(std::span<const double> p, const OpRates& r) {
  const double m = p[0], n = p[1], k = p[2];
  const double moved = n * k * r.weight_bytes + (m * k + m * n) * kActivationBytes;
  const double products = std::ceil(m / r.tile_rows) * r.tile_rows * n;
  return {{kMicrosecond, moved / r.bytes_per_s, 2 * products * k / r.flops_per_s, 0},
          {std::log2(m), std::log2(n), std::log2(k), 0}};
}

// `context`: tokens before the new ones, of which keys and values alone are read.
OpPlace mla_prefill(std::span<const double> p, const OpRates& r) {
  const double batch = p[0], length = p[1], heads = p[2];
  const double pairs = batch * length * ((length + 1) / 2);
  const double moved = batch * heads * (2 * length) * (kMlaQueryWidth + kMlaValueWidth) * kActivationBytes;
  return {
      {kMicrosecond, moved / r.bytes_per_s, 2 * pairs * heads * (kMlaQueryWidth + kMlaValueWidth) / r.flops_per_s, 0},
      {std::log2(length), std::log2(batch), std::log2(heads), 0}};
}

OpPlace mla_decode(std::span<const double> p, const OpRates& r) {
  const double batch = p[0], length = p[1], heads = p[2];
  const double latent = kMlaLatent + kMlaRope;
  return {{kMicrosecond, batch * length * latent * r.weight_bytes / r.bytes_per_s,
           2 * batch * length * heads * (latent + kMlaLatent) / r.flops_per_s, batch * kMicrosecond},
          {std::log2(length), std::log2(batch), std::log2(heads), 0}};
}

OpPlace gqa_prefill(std::span<const double> p, const OpRates& r) {
  const double batch = p[0], length = p[1], heads = p[2], kv_heads = p[3], width = p[4];
  const double pairs = batch * length * ((length + 1) / 2);
  const double moved = batch * (length * 2 * heads + length * 2 * kv_heads) * width * kActivationBytes;
  return {{kMicrosecond, moved / r.bytes_per_s, 4 * pairs * heads * width / r.flops_per_s, 0},
          {std::log2(length), std::log2(batch), std::log2(heads), std::log2(heads / kv_heads)}};
}

OpPlace gqa_decode(std::span<const double> p, const OpRates& r) {
  const double batch = p[0], length = p[1], heads = p[2], kv_heads = p[3], width = p[4];
  return {{kMicrosecond, batch * length * 2 * kv_heads * width * r.weight_bytes / r.bytes_per_s,
           4 * batch * length * heads * width / r.flops_per_s, batch * kv_heads * kMicrosecond},
          {std::log2(length), std::log2(batch), std::log2(kv_heads), std::log2(heads / kv_heads)}};
}

// The logits are float32, an id and a weight come out per choice.
OpPlace gate(std::span<const double> p, const OpRates& r) {
  const auto [tokens, hidden, experts, top_k] = std::array{p[0], p[1], p[2], p[3]};
  const double moved = (tokens + experts) * hidden * kActivationBytes + tokens * (4 * experts + 8 * top_k);
  return {{kMicrosecond, moved / r.bytes_per_s, 2 * tokens * hidden * experts / r.flops_per_s},
          {std::log2(tokens), std::log2(hidden * experts)}};
}

// A kernel that moves `bytes` and is told apart from others like it by that alone.
OpPlace moving(double bytes, const OpRates& r) { return {{kMicrosecond, bytes / r.bytes_per_s}, {std::log2(bytes)}}; }

// `arrays` of rows x width are read or written.
OpPlace row_by_row(std::span<const double> p, double arrays, const OpRates& r) {
  return {{kMicrosecond, arrays * p[0] * p[1] * kActivationBytes / r.bytes_per_s}, {std::log2(p[0]), std::log2(p[1])}};
}

}  // namespace

std::span<const OpInfo> op_infos() { return kOps; }

const OpInfo& op_info(OpKind kind) { return kOps[static_cast<std::size_t>(kind)]; }

const OpDtype& dtype_of(std::string_view op) {
  return *std::find_if(kDtypes.begin(), kDtypes.end(), [&](const OpDtype& d) { return op.ends_with(d.suffix); });
}

const OpDtype& dtype_of(WeightType type) { return *std::ranges::find(kDtypes, type, &OpDtype::type); }

const OpInfo* find_op_info(std::string_view op) {
  for (const OpInfo& info : kOps) {
    if (op.starts_with(info.name) && op.substr(info.name.size()) == dtype_of(op).suffix) {
      return &info;
    }
  }
  return nullptr;
}

std::size_t count_names(std::span<const std::string_view> names) {
  return static_cast<std::size_t>(std::count_if(names.begin(), names.end(), [](auto name) { return !name.empty(); }));
}

double share_of_launch(double assignments) {
  constexpr double kHalfAt = 30;
  return assignments / (assignments + kHalfAt);
}

std::array<double, 3> remote_terms(double assignments, double hidden, double intermediate, const OpRates& rates) {
  const double row_s = assignments * kActivationBytes / rates.bytes_per_s;
  return {share_of_launch(assignments) * kMicrosecond, row_s * hidden, row_s * intermediate};
}

double padded_rows(double rows, double groups, double rows_max, double tile) {
  const double mean = rows / groups;
  const bool even = rows_max <= std::ceil(mean);
  const double each = even ? std::ceil(mean / tile) * tile : std::max(tile, mean + tile / 2);
  return groups * each;
}

OpPlace op_place(OpKind kind, std::span<const double> p, const OpRates& rates) {
  switch (kind) {
    case OpKind::kGroupedGemm:
      return grouped_gemm(p, rates);
    case OpKind::kDenseGemm:
      return dense_gemm(p, rates);
    case OpKind::kMlaPrefill:
      return mla_prefill(p, rates);
    case OpKind::kMlaDecode:
      return mla_decode(p, rates);
    case OpKind::kGqaPrefill:
      return gqa_prefill(p, rates);
    case OpKind::kGqaDecode:
      return gqa_decode(p, rates);
    case OpKind::kGate:
      return gate(p, rates);
    case OpKind::kPermute:
    case OpKind::kUnpermute:
      return moving(p[0] * p[1] * (1 + p[2]) * kActivationBytes, rates);
    case OpKind::kActivation:
      return row_by_row(p, 3, rates);
    case OpKind::kNorm:
      return row_by_row(p, 2, rates);
    case OpKind::kDeviceCopy:
      return {moving(2 * p[0], rates).terms, {std::log2(p[0])}};
    case OpKind::kHostToDevice:
    case OpKind::kDeviceToHost:
    case OpKind::kPeerCopy:
      return moving(p[0], rates);
  }
  EPSIM_CHECK(false, "an operator of no known kind");
  return {};
}

}  // namespace epsim
