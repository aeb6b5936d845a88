// What the kernels take, for the host's side of a launch. Layouts stand with the kernels.
#pragma once

#include <cstdint>

namespace epsim::measure {

// Up to kRows rows of one group.
struct RowTile {
  int group = 0, first_row = 0, rows = 0;
};

struct PrefillArguments {
  const std::uint16_t* q = nullptr;
  const std::uint16_t* k = nullptr;
  const std::uint16_t* v = nullptr;
  std::uint16_t* out = nullptr;
  int fresh = 0, context = 0, heads = 0, kv_heads = 0;
};

struct DecodeArguments {
  const std::uint16_t* q = nullptr;
  const std::uint16_t* k = nullptr;
  const std::uint16_t* v = nullptr;
  float* parts = nullptr;    // sums of values, weighted by exponentials relative to `largest`
  float* largest = nullptr;  // batch x heads x splits
  float* total = nullptr;    // likewise: sums of the exponentials
  std::uint16_t* out = nullptr;
  int keys = 0, heads = 0, kv_heads = 0, splits = 1, keys_per_split = 0;  // the last a multiple of 64
};

}  // namespace epsim::measure
