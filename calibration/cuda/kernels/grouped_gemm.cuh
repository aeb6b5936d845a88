// out = a w^T for ragged groups of rows, each with its own weights; bf16 operands, float sums.
//   Models : one block of 256 threads per tile of kRows x 128 outputs; three stages of 32 columns in shared memory.
//   Layout : a rows x k, w groups x n x k, out rows x n, all row-major; groups' rows follow one another.
//   Valid  : k a multiple of 32, n even, pointers aligned to 16 bytes.
#pragma once

#include "calibration/cuda/kernels/arguments.h"
#include "calibration/cuda/kernels/primitives.cuh"

namespace epsim::measure {

namespace kernel {

inline constexpr int kTileColumns = 128, kTileDepth = 32, kStages = 3, kGemmThreads = 256;
inline constexpr int kPitch = kTileDepth + 8;  // 80 bytes: the 8 rows of a matrix lie in different banks

template <int kRows>
inline constexpr int kGroupedShared = kStages*(kRows + kTileColumns) * kPitch * 2;  // bytes

struct GroupedArguments {
  const std::uint16_t* a = nullptr;
  const std::uint16_t* w = nullptr;
  std::uint16_t* out = nullptr;
  const RowTile* tiles = nullptr;
  int n = 0, k = 0;
};

template <int kRows>
EPSIM_DEVICE void load_stage(const GroupedArguments& g, const RowTile& tile, int column, int depth,
                             std::uint16_t* stage) {
  constexpr int kParts = kTileDepth / 8;
  for (int c = threadIdx.x; c < kRows * kParts; c += kGemmThreads) {
    const int row = c / kParts, part = c % kParts;
    const bool valid = row < tile.rows;
    const std::uint16_t* from = g.a + static_cast<std::int64_t>(tile.first_row + (valid ? row : 0)) * g.k + depth;
    copy_async(stage + row * kPitch + part * 8, from + part * 8, valid);
  }
  std::uint16_t* weights = stage + kRows * kPitch;
  for (int c = threadIdx.x; c < kTileColumns * kParts; c += kGemmThreads) {
    const int row = c / kParts, part = c % kParts;
    const bool valid = column + row < g.n;
    const std::int64_t line = static_cast<std::int64_t>(tile.group) * g.n + column + (valid ? row : 0);
    copy_async(weights + row * kPitch + part * 8, g.w + line * g.k + depth + part * 8, valid);
  }
}

template <int kRows>
EPSIM_DEVICE void grouped_gemm(const GroupedArguments& g, std::uint16_t* shared) {
  constexpr int kWarpsDown = kRows == 128 ? 2 : 1, kWarpsAcross = 8 / kWarpsDown;
  constexpr int kDown = kRows / kWarpsDown / 16, kAcross = kTileColumns / kWarpsAcross / 8;
  constexpr int kStageSize = (kRows + kTileColumns) * kPitch;
  const RowTile tile = g.tiles[blockIdx.y];
  const int column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsAcross * kDown * 16, warp_column = warp % kWarpsAcross * kAcross * 8;
  const int steps = g.k / kTileDepth;
  float sums[kDown][kAcross][4] = {};

  for (int s = 0; s < kStages - 1; ++s) {
    if (s < steps) {
      load_stage<kRows>(g, tile, column, s * kTileDepth, shared + s * kStageSize);
    }
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    sync_block();  // this step's stage is there, and the one that is loaded next has been read by all
    if (step + kStages - 1 < steps) {
      load_stage<kRows>(g, tile, column, (step + kStages - 1) * kTileDepth,
                        shared + (step + kStages - 1) % kStages * kStageSize);
    }
    commit_copies();
    const std::uint16_t* rows = shared + step % kStages * kStageSize;
    const std::uint16_t* weights = rows + kRows * kPitch;
    for (int depth = 0; depth < kTileDepth; depth += 16) {
      std::uint32_t a[kDown][4], b[kAcross / 2][4];
      EPSIM_UNROLL
      for (int i = 0; i < kDown; ++i) {
        load_matrices(a[i], rows + (warp_row + i * 16 + lane % 16) * kPitch + depth + lane / 16 * 8);
      }
      EPSIM_UNROLL
      for (int j = 0; j < kAcross / 2; ++j) {  // two times 8 columns: matrices (columns, depth), (.., + 8), (+ 8, ..)
        load_matrices(b[j],
                      weights + (warp_column + j * 16 + lane / 16 * 8 + lane % 8) * kPitch + depth + lane / 8 % 2 * 8);
      }
      EPSIM_UNROLL
      for (int i = 0; i < kDown; ++i) {
        EPSIM_UNROLL
        for (int j = 0; j < kAcross; ++j) {
          multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }
  for (int i = 0; i < kDown; ++i) {
    for (int j = 0; j < kAcross; ++j) {
      const int at = column + warp_column + j * 8 + lane % 4 * 2;
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + i * 16 + lane / 4 + half * 8;
        if (row < tile.rows && at < g.n) {
          std::uint16_t* to = g.out + static_cast<std::int64_t>(tile.first_row + row) * g.n + at;
          *reinterpret_cast<std::uint32_t*>(to) = pack(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
        }
      }
    }
  }
}

}  // namespace kernel
}  // namespace epsim::measure
