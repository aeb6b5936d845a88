// Attention of one new token per sequence over its KV cache, the keys split over blocks, and the splits put together.
//   Models : one block of 8 warps per (sequence, KV head, kRows of its query heads, split); warps share the scores of a
//            tile of 64 keys (8 keys each) and then its values (kV / 8 columns each).
//   Layout : q batch x heads x kQk, k batch x keys x kv_heads x kQk, v likewise with kV, or, when kLatent, the first kV
//            entries of k (MLA with absorbed projections); parts batch x heads x splits x kV in float; out batch x
//            heads x kV.
//   Source : Dao et al., "Flash-Decoding for long-context inference", 2023 (the split and its sum).
#pragma once

#include "calibration/cuda/kernels/attention_prefill.cuh"

namespace epsim::measure {

namespace kernel {

inline constexpr int kDecodeThreads = 256;
inline constexpr int kScorePitch = kKeys + 4;

template <int kQk, int kV, int kRows, bool kLatent>
inline constexpr int kDecodeShared =
    (kRows * (kQk + 8) + kKeys * (kQk + 8) + (kLatent ? 0 : kKeys * (kV + 8)) + kRows * (kKeys + 8)) * 2 +
    (kRows * kScorePitch + 3 * kRows) * 4;  // bytes

// What the rows of a block share about their softmax.
struct DecodeState {
  float* scores;   // kRows x kScorePitch
  float* largest;  // kRows each
  float* total;
  float* factor;
  std::uint16_t* weights;  // kRows x (kKeys + 8): the exponentials as bf16
};

// Warp w takes rows w, w + 8, ...; a lane takes keys lane and lane + 32. Keys from `keys` on do not count.
template <int kRows>
EPSIM_DEVICE void softmax_rows(const DecodeState& s, int keys, float scale, int warp, int lane) {
  for (int row = warp; row < kRows; row += kDecodeThreads / 32) {
    float x[2];
    for (int i = 0; i < 2; ++i) {
      const int key = lane + 32 * i;
      x[i] = key < keys ? s.scores[row * kScorePitch + key] * scale : kNever;
    }
    float largest = fmaxf(x[0], x[1]);
    for (int mask = 1; mask < 32; mask *= 2) {
      largest = fmaxf(largest, shuffle_xor(largest, mask));
    }
    const float before = s.largest[row];
    largest = fmaxf(largest, before);
    float sum = 0;
    for (int i = 0; i < 2; ++i) {
      const float weight = lane + 32 * i < keys ? exp2_fast(x[i] - largest) : 0.0f;
      s.weights[row * (kKeys + 8) + lane + 32 * i] = bf16_bits(weight);
      sum += weight;
    }
    for (int mask = 1; mask < 32; mask *= 2) {
      sum += shuffle_xor(sum, mask);
    }
    if (lane == 0) {
      s.factor[row] = exp2_fast(before - largest);
      s.largest[row] = largest;
      s.total[row] = s.total[row] * s.factor[row] + sum;
    }
  }
}

// Scores of kRows rows and this warp's 8 keys, left in shared memory.
template <int kQk, int kRows>
EPSIM_DEVICE void score_keys(const std::uint16_t* queries, const std::uint16_t* keys, const DecodeState& s, int warp,
                             int lane) {
  float sums[kRows / 16][4] = {};
  for (int depth = 0; depth < kQk; depth += 32) {
    std::uint32_t b[4];  // 8 keys, four times 8 of depth
    load_matrices(b, keys + (warp * 8 + lane % 8) * (kQk + 8) + depth + lane / 8 * 8);
    EPSIM_UNROLL
    for (int i = 0; i < kRows / 16; ++i) {
      for (int half = 0; half < 2; ++half) {
        std::uint32_t a[4];
        load_matrices(a, queries + (i * 16 + lane % 16) * (kQk + 8) + depth + half * 16 + lane / 16 * 8);
        multiply(sums[i], a, b[half * 2], b[half * 2 + 1]);
      }
    }
  }
  for (int i = 0; i < kRows / 16; ++i) {
    for (int c = 0; c < 4; ++c) {
      s.scores[(i * 16 + lane / 4 + c / 2 * 8) * kScorePitch + warp * 8 + lane % 4 * 2 + c % 2] = sums[i][c];
    }
  }
}

// Adds weights times this warp's kV / 8 columns of the values.
template <int kV, int kRows>
EPSIM_DEVICE void add_weighted(const DecodeState& s, const std::uint16_t* values, int pitch, int warp, int lane,
                               float (&sums)[kRows / 16][kV / 64][4]) {
  EPSIM_UNROLL
  for (int i = 0; i < kRows / 16; ++i) {
    EPSIM_UNROLL
    for (int j = 0; j < kV / 64; ++j) {
      for (int c = 0; c < 4; ++c) {
        sums[i][j][c] *= s.factor[i * 16 + lane / 4 + c / 2 * 8];
      }
    }
  }
  for (int step = 0; step < kKeys; step += 32) {
    std::uint32_t a[kRows / 16][2][4];
    EPSIM_UNROLL
    for (int i = 0; i < kRows / 16; ++i) {
      for (int half = 0; half < 2; ++half) {
        load_matrices(a[i][half], s.weights + (i * 16 + lane % 16) * (kKeys + 8) + step + half * 16 + lane / 16 * 8);
      }
    }
    EPSIM_UNROLL
    for (int j = 0; j < kV / 64; ++j) {
      std::uint32_t b[4];  // four times 8 keys, 8 columns
      load_matrices_transposed(b, values + (step + lane) * pitch + warp * (kV / 8) + j * 8);
      EPSIM_UNROLL
      for (int i = 0; i < kRows / 16; ++i) {
        multiply(sums[i][j], a[i][0], b[0], b[1]);
        multiply(sums[i][j], a[i][1], b[2], b[3]);
      }
    }
  }
}

template <int kQk, int kV, int kRows, bool kLatent>
EPSIM_DEVICE void attention_decode(const DecodeArguments& p, std::uint16_t* shared) {
  std::uint16_t* queries = shared;
  std::uint16_t* keys = queries + kRows * (kQk + 8);
  std::uint16_t* values = kLatent ? keys : keys + kKeys * (kQk + 8);
  std::uint16_t* weights = kLatent ? keys + kKeys * (kQk + 8) : values + kKeys * (kV + 8);
  float* numbers = reinterpret_cast<float*>(weights + kRows * (kKeys + 8));
  const DecodeState state{numbers, numbers + kRows * kScorePitch, numbers + kRows * (kScorePitch + 1),
                          numbers + kRows * (kScorePitch + 2), weights};
  const int group = p.heads / p.kv_heads, blocks = (group + kRows - 1) / kRows;
  const int kv_head = static_cast<int>(blockIdx.y) / blocks, head = kv_head * group + blockIdx.y % blocks * kRows;
  const int heads_left = (kv_head + 1) * group - head, sequence = static_cast<int>(blockIdx.z);
  const int first = static_cast<int>(blockIdx.x) * p.keys_per_split;
  const int end = first + p.keys_per_split < p.keys ? first + p.keys_per_split : p.keys;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float scale = 1.44269504f * root_inverse(static_cast<float>(kQk));
  const std::int64_t line = (static_cast<std::int64_t>(sequence) * p.keys * p.kv_heads + kv_head);

  load_rows<kQk, kDecodeThreads>(p.q + (static_cast<std::int64_t>(sequence) * p.heads + head) * kQk, kQk, heads_left,
                                 kRows, queries);
  for (int row = threadIdx.x; row < kRows; row += kDecodeThreads) {
    state.largest[row] = kNever;
    state.total[row] = 0;
  }
  sync_block();  // a split without keys goes straight to the end
  float sums[kRows / 16][kV / 64][4] = {};
  for (int key = first; key < end; key += kKeys) {
    const std::int64_t at = line + static_cast<std::int64_t>(key) * p.kv_heads;
    load_rows<kQk, kDecodeThreads>(p.k + at * kQk, static_cast<std::int64_t>(p.kv_heads) * kQk, end - key, kKeys, keys);
    if constexpr (!kLatent) {
      load_rows<kV, kDecodeThreads>(p.v + at * kV, static_cast<std::int64_t>(p.kv_heads) * kV, end - key, kKeys,
                                    values);
    }
    commit_copies();
    wait_copies<0>();
    sync_block();
    score_keys<kQk, kRows>(queries, keys, state, warp, lane);
    sync_block();
    softmax_rows<kRows>(state, end - key, scale, warp, lane);
    sync_block();
    add_weighted<kV, kRows>(state, values, kLatent ? kQk + 8 : kV + 8, warp, lane, sums);
    sync_block();
  }
  for (int i = 0; i < kRows / 16; ++i) {
    for (int c = 0; c < 4; ++c) {
      const int row = i * 16 + lane / 4 + c / 2 * 8;
      if (row < heads_left) {
        const std::int64_t part = (static_cast<std::int64_t>(sequence) * p.heads + head + row) * p.splits + blockIdx.x;
        for (int j = 0; j < kV / 64; ++j) {
          p.parts[part * kV + warp * (kV / 8) + j * 8 + lane % 4 * 2 + c % 2] = sums[i][j][c];
        }
        if (warp == 0 && lane % 4 == 0 && c % 2 == 0) {
          p.largest[part] = state.largest[row];
          p.total[part] = state.total[row];
        }
      }
    }
  }
}

// One block per (head, sequence), any number of threads.
template <int kV>
EPSIM_DEVICE void combine_splits(const DecodeArguments& p) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * p.heads + blockIdx.x;
  float largest = kNever, total = 0;
  for (int s = 0; s < p.splits; ++s) {
    largest = fmaxf(largest, p.largest[row * p.splits + s]);
  }
  for (int s = 0; s < p.splits; ++s) {
    total += p.total[row * p.splits + s] * exp2_fast(p.largest[row * p.splits + s] - largest);
  }
  for (int d = threadIdx.x; d < kV; d += blockDim.x) {
    float sum = 0;
    for (int s = 0; s < p.splits; ++s) {
      const std::int64_t part = row * p.splits + s;
      sum += p.parts[part * kV + d] * exp2_fast(p.largest[part] - largest);
    }
    p.out[row * kV + d] = bf16_bits(sum / total);
  }
}

}  // namespace kernel
}  // namespace epsim::measure
