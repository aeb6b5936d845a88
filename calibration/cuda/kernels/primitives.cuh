// The warp's and the block's tools that the kernels are written in; a test compiles the kernels for the host, over
// tools of the same names.
#pragma once

#include <cstdint>

#include "calibration/measure/numbers.h"

#ifdef __CUDACC__

#define EPSIM_DEVICE __device__ __forceinline__
#define EPSIM_UNROLL _Pragma("unroll")

namespace epsim::measure::kernel {

using Bf16 = std::uint16_t;

EPSIM_DEVICE void sync_block() { __syncthreads(); }
template <class T>
EPSIM_DEVICE T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
EPSIM_DEVICE float root_inverse(float x) { return rsqrtf(x); }
EPSIM_DEVICE float exp_fast(float x) { return __expf(x); }

}  // namespace epsim::measure::kernel

#else
#ifndef EPSIM_DEVICE
#error "outside nvcc the emulated tools must be included first"
#endif
#endif

namespace epsim::measure::kernel {

struct alignas(16) Vector8 {  // eight bf16, moved at once
  std::uint16_t bits[8];
};

}  // namespace epsim::measure::kernel
