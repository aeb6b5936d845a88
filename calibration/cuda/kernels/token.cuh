// What happens to tokens around the experts: norm, top-k, permutation, activation. bf16 rows, float arithmetic.
//   Valid : widths are multiples of 8; at most 512 experts; top_k at most 32.
#pragma once

#include "calibration/cuda/kernels/primitives.cuh"

namespace epsim::measure::kernel {

inline constexpr int kTokenThreads = 256, kMostExperts = 512;

EPSIM_DEVICE float warp_sum(float x) {
  for (int mask = 1; mask < 32; mask *= 2) {
    x += shuffle_xor(x, mask);
  }
  return x;
}

// out[row][i] = silu(in[row][i]) * in[row][width + i]; any grid of threads.
EPSIM_DEVICE void silu_mul(const std::uint16_t* in, std::uint16_t* out, std::int64_t rows, int width) {
  const std::int64_t parts = width / 8, all = rows * parts, step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < all; c += step) {
    const std::int64_t row = c / parts, part = c % parts;
    const Vector8 gate = *reinterpret_cast<const Vector8*>(in + row * 2 * width + part * 8);
    const Vector8 up = *reinterpret_cast<const Vector8*>(in + row * 2 * width + width + part * 8);
    Vector8 result;
    for (int i = 0; i < 8; ++i) {
      const float x = bf16_value(gate.bits[i]);
      result.bits[i] = bf16_bits(x / (1.0f + exp_fast(-x)) * bf16_value(up.bits[i]));
    }
    *reinterpret_cast<Vector8*>(out + row * width + part * 8) = result;
  }
}

// The same into e4m3, times `scale`, as an fp8 product reads it.
EPSIM_DEVICE void silu_mul_fp8(const std::uint16_t* in, std::uint8_t* out, std::int64_t rows, int width, float scale) {
  const std::int64_t all = rows * width, step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; c < all; c += step) {
    const std::int64_t row = c / width, i = c % width;
    const float x = bf16_value(in[row * 2 * width + i]), up = bf16_value(in[row * 2 * width + width + i]);
    out[c] = e4m3_bits(x / (1.0f + exp_fast(-x)) * up * scale);
  }
}

// One block per row: out = in / sqrt(mean of squares + 1e-6) * weight.
EPSIM_DEVICE void rms_norm(const std::uint16_t* in, const std::uint16_t* weight, std::uint16_t* out, int width,
                           float* shared) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * width;
  float squares = 0;
  for (int c = threadIdx.x; c < width / 8; c += kTokenThreads) {
    const Vector8 x = *reinterpret_cast<const Vector8*>(in + row + c * 8);
    for (const std::uint16_t bits : x.bits) {
      squares += bf16_value(bits) * bf16_value(bits);
    }
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = squares;
  }
  sync_block();
  float sum = 0;
  for (int w = 0; w < kTokenThreads / 32; ++w) {
    sum += shared[w];
  }
  const float factor = root_inverse(sum / static_cast<float>(width) + 1e-6f);
  for (int c = threadIdx.x; c < width / 8; c += kTokenThreads) {
    const Vector8 x = *reinterpret_cast<const Vector8*>(in + row + c * 8);
    const Vector8 w = *reinterpret_cast<const Vector8*>(weight + c * 8);
    Vector8 result;
    for (int i = 0; i < 8; ++i) {
      result.bits[i] = bf16_bits(bf16_value(x.bits[i]) * factor * bf16_value(w.bits[i]));
    }
    *reinterpret_cast<Vector8*>(out + row + c * 8) = result;
  }
}

// One warp per token: the top_k largest of its logits (equal ones: the lower expert first) and their softmax.
EPSIM_DEVICE void top_k(const float* logits, std::int32_t* experts, float* weights, int tokens, int count, int k) {
  const int token = static_cast<int>(blockIdx.x) * (kTokenThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token >= tokens) {
    return;  // the whole warp
  }
  float mine[kMostExperts / 32];
  for (int i = 0; i < kMostExperts / 32; ++i) {
    const int e = lane + 32 * i;
    mine[i] = e < count ? logits[static_cast<std::int64_t>(token) * count + e] : -3e38f;
  }
  float first = 0, total = 0, kept = 0;
  int chosen = 0;
  for (int round = 0; round < k; ++round) {
    float best = -3.1e38f;
    int at = kMostExperts;
    for (int i = 0; i < kMostExperts / 32; ++i) {
      if (mine[i] > best) {
        best = mine[i];
        at = lane + 32 * i;
      }
    }
    for (int mask = 1; mask < 32; mask *= 2) {
      const float other = shuffle_xor(best, mask);
      const int other_at = shuffle_xor(at, mask);
      if (other > best || (other == best && other_at < at)) {
        best = other;
        at = other_at;
      }
    }
    for (int i = 0; i < kMostExperts / 32; ++i) {
      mine[i] = lane + 32 * i == at ? -3.2e38f : mine[i];
    }
    first = round == 0 ? best : first;
    const float weight = exp_fast(best - first);
    total += weight;
    if (lane == round) {
      kept = weight;
      chosen = at;
    }
  }
  if (lane < k) {
    experts[static_cast<std::int64_t>(token) * k + lane] = chosen;
    weights[static_cast<std::int64_t>(token) * k + lane] = kept / total;
  }
}

// One block per token: its row to each of its k places.
EPSIM_DEVICE void permute(const std::uint16_t* in, const std::int32_t* place, std::uint16_t* out, int width, int k) {
  const std::int64_t token = blockIdx.x;
  for (int c = threadIdx.x; c < width / 8; c += kTokenThreads) {
    const Vector8 x = *reinterpret_cast<const Vector8*>(in + token * width + c * 8);
    for (int i = 0; i < k; ++i) {
      *reinterpret_cast<Vector8*>(out + static_cast<std::int64_t>(place[token * k + i]) * width + c * 8) = x;
    }
  }
}

// One block per token: the sum of its k rows, weighted.
EPSIM_DEVICE void unpermute(const std::uint16_t* in, const std::int32_t* place, const float* weights,
                            std::uint16_t* out, int width, int k) {
  const std::int64_t token = blockIdx.x;
  for (int c = threadIdx.x; c < width / 8; c += kTokenThreads) {
    float sum[8] = {};
    for (int i = 0; i < k; ++i) {
      const std::int64_t row = place[token * k + i];
      const Vector8 x = *reinterpret_cast<const Vector8*>(in + row * width + c * 8);
      for (int j = 0; j < 8; ++j) {
        sum[j] += weights[token * k + i] * bf16_value(x.bits[j]);
      }
    }
    Vector8 result;
    for (int j = 0; j < 8; ++j) {
      result.bits[j] = bf16_bits(sum[j]);
    }
    *reinterpret_cast<Vector8*>(out + token * width + c * 8) = result;
  }
}

}  // namespace epsim::measure::kernel
