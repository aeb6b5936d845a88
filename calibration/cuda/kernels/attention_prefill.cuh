// Causal attention of new tokens after a context, softmax online over tiles of 64 keys.
//   Models : one block of 4 warps per (sequence, head, 64 queries); a warp owns 16 queries.
//   Layout : q batch x new x heads x kQk, k batch x keys x kv_heads x kQk, v likewise with kV, out as q with kV;
//            keys = context + new, and query i sees keys 0 to context + i.
//   Source : Dao, "FlashAttention-2", 2023 (order of the loops, rescaling of the sums).
#pragma once

#include "calibration/cuda/kernels/arguments.h"
#include "calibration/cuda/kernels/primitives.cuh"

namespace epsim::measure {

namespace kernel {

inline constexpr int kQueries = 64, kKeys = 64, kPrefillThreads = 128;
inline constexpr float kNever = -1e30f;

template <int kQk, int kV>
inline constexpr int kPrefillShared = ((kQueries + kKeys) * (kQk + 8) + kKeys * (kV + 8)) * 2;  // bytes

// Rows of `width` elements, `stride` apart, into rows of `width + 8`; zeros from row `rows` on.
template <int kWidth, int kThreads>
EPSIM_DEVICE void load_rows(const std::uint16_t* from, std::int64_t stride, int rows, int count, std::uint16_t* to) {
  constexpr int kParts = kWidth / 8;
  for (int c = threadIdx.x; c < count * kParts; c += kThreads) {
    const int row = c / kParts, part = c % kParts;
    const bool valid = row < rows;
    copy_async(to + row * (kWidth + 8) + part * 8, from + (valid ? row : 0) * stride + part * 8, valid);
  }
}

// Softmax of one warp's 16 x 64 scores, of which lanes hold rows g and g + 8; returns the factors for earlier sums.
struct RowState {
  float largest[2] = {kNever, kNever}, total[2] = {0, 0};
};

EPSIM_DEVICE void update_softmax(float (&s)[kKeys / 8][4], RowState& state, float (&factor)[2]) {
  for (int half = 0; half < 2; ++half) {
    float largest = state.largest[half];
    for (auto& scores : s) {
      largest = fmaxf(largest, fmaxf(scores[half * 2], scores[half * 2 + 1]));
    }
    largest = fmaxf(largest, shuffle_xor(largest, 1));
    largest = fmaxf(largest, shuffle_xor(largest, 2));
    factor[half] = exp2_fast(state.largest[half] - largest);
    state.largest[half] = largest;
    float sum = 0;
    for (auto& scores : s) {
      for (int c = half * 2; c < half * 2 + 2; ++c) {
        scores[c] = exp2_fast(scores[c] - largest);
        sum += scores[c];
      }
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    state.total[half] = state.total[half] * factor[half] + sum;
  }
}

template <int kQk>
EPSIM_DEVICE void score_tile(const std::uint16_t* queries, const std::uint16_t* keys, int warp, int lane,
                             float (&s)[kKeys / 8][4]) {
  constexpr int kPitchQk = kQk + 8;
  for (int depth = 0; depth < kQk; depth += 16) {
    std::uint32_t a[4], b[4];
    load_matrices(a, queries + (warp * 16 + lane % 16) * kPitchQk + depth + lane / 16 * 8);
    EPSIM_UNROLL
    for (int j = 0; j < kKeys / 16; ++j) {
      load_matrices(b, keys + (j * 16 + lane / 16 * 8 + lane % 8) * kPitchQk + depth + lane / 8 % 2 * 8);
      multiply(s[2 * j], a, b[0], b[1]);
      multiply(s[2 * j + 1], a, b[2], b[3]);
    }
  }
}

template <int kV>
EPSIM_DEVICE void add_values(const float (&p)[kKeys / 8][4], const std::uint16_t* values, int lane,
                             float (&sums)[kV / 8][4]) {
  for (int step = 0; step < kKeys / 16; ++step) {
    const std::uint32_t a[4] = {pack(p[2 * step][0], p[2 * step][1]), pack(p[2 * step][2], p[2 * step][3]),
                                pack(p[2 * step + 1][0], p[2 * step + 1][1]),
                                pack(p[2 * step + 1][2], p[2 * step + 1][3])};
    EPSIM_UNROLL
    for (int j = 0; j < kV / 16; ++j) {
      std::uint32_t b[4];
      load_matrices_transposed(b, values + (step * 16 + lane % 16) * (kV + 8) + j * 16 + lane / 16 * 8);
      multiply(sums[2 * j], a, b[0], b[1]);
      multiply(sums[2 * j + 1], a, b[2], b[3]);
    }
  }
}

template <int kQk, int kV>
EPSIM_DEVICE void attention_prefill(const PrefillArguments& p, std::uint16_t* shared) {
  std::uint16_t* queries = shared;
  std::uint16_t* keys = queries + kQueries * (kQk + 8);
  std::uint16_t* values = keys + kKeys * (kQk + 8);
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int kv_head = head / (p.heads / p.kv_heads), all_keys = p.context + p.fresh;
  const int first = static_cast<int>(blockIdx.x) * kQueries, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int64_t query_row = static_cast<std::int64_t>(sequence) * p.fresh + first;
  const std::uint16_t* k = p.k + (static_cast<std::int64_t>(sequence) * all_keys * p.kv_heads + kv_head) * kQk;
  const std::uint16_t* v = p.v + (static_cast<std::int64_t>(sequence) * all_keys * p.kv_heads + kv_head) * kV;
  // 1 / sqrt(kQk), and log2(e) because exponentials are taken to base 2.
  const float scale = 1.44269504f * root_inverse(static_cast<float>(kQk));
  const int last_query = first + kQueries < p.fresh ? first + kQueries : p.fresh;
  const int seen = p.context + last_query;  // keys that any query of the block sees

  load_rows<kQk, kPrefillThreads>(p.q + (query_row * p.heads + head) * kQk, static_cast<std::int64_t>(p.heads) * kQk,
                                  p.fresh - first, kQueries, queries);
  RowState state;
  float sums[kV / 8][4] = {};
  for (int key = 0; key < seen; key += kKeys) {
    const std::int64_t line = static_cast<std::int64_t>(key) * p.kv_heads;
    load_rows<kQk, kPrefillThreads>(k + line * kQk, static_cast<std::int64_t>(p.kv_heads) * kQk, all_keys - key, kKeys,
                                    keys);
    load_rows<kV, kPrefillThreads>(v + line * kV, static_cast<std::int64_t>(p.kv_heads) * kV, all_keys - key, kKeys,
                                   values);
    commit_copies();
    wait_copies<0>();
    sync_block();
    float s[kKeys / 8][4] = {};
    score_tile<kQk>(queries, keys, warp, lane, s);
    for (int j = 0; j < kKeys / 8; ++j) {
      for (int c = 0; c < 4; ++c) {
        const int query = first + warp * 16 + lane / 4 + c / 2 * 8, at = key + j * 8 + lane % 4 * 2 + c % 2;
        s[j][c] = at <= p.context + query ? s[j][c] * scale : kNever;
      }
    }
    float factor[2];
    update_softmax(s, state, factor);
    EPSIM_UNROLL
    for (auto& sum : sums) {
      for (int c = 0; c < 4; ++c) {
        sum[c] *= factor[c / 2];
      }
    }
    add_values<kV>(s, values, lane, sums);
    sync_block();
  }
  for (int j = 0; j < kV / 8; ++j) {
    for (int half = 0; half < 2; ++half) {
      const int query = warp * 16 + lane / 4 + half * 8;
      if (first + query < p.fresh) {
        std::uint16_t* to = p.out + ((query_row + query) * p.heads + head) * kV + j * 8 + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(to) =
            pack(sums[j][half * 2] / state.total[half], sums[j][half * 2 + 1] / state.total[half]);
      }
    }
  }
}

}  // namespace kernel
}  // namespace epsim::measure
