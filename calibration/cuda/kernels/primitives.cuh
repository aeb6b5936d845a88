// The warp's and the block's tools that the kernels are written in. nvcc compiles them to instructions of sm_80 and
// later; a test compiles the kernels for the host, over tools of the same names that follow the PTX ISA's figures.
//   Source : PTX ISA 8.x, "ldmatrix", "mma.m16n8k16", "cp.async".
//
// Layout of the matrix fragments of one lane, with g = lane / 4 and t = lane % 4:
//   A 16 x 16  a[0] (g, 2t..2t+1)  a[1] (g + 8, 2t..)  a[2] (g, 2t + 8..)  a[3] (g + 8, 2t + 8..)
//   B 16 x 8   b[0] (2t..2t+1, g)  b[1] (2t + 8.., g)
//   C 16 x 8   c[0], c[1] (g, 2t..2t+1)  c[2], c[3] (g + 8, 2t..)
#pragma once

#include <cstdint>

#include "calibration/measure/numbers.h"

#ifdef __CUDACC__

#define EPSIM_DEVICE __device__ __forceinline__
#define EPSIM_UNROLL _Pragma("unroll")

namespace epsim::measure::kernel {

using Bf16 = std::uint16_t;

EPSIM_DEVICE unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Four 8 x 8 matrices of 16-bit elements; lane 8 i + r gives the address of row r of matrix i.
EPSIM_DEVICE void load_matrices(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// c += A B in float, bf16 operands.
EPSIM_DEVICE void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 bytes from device to shared memory in the background; zeros unless `valid`.
EPSIM_DEVICE void copy_async(void* shared, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(from), "r"(bytes)
               : "memory");
}
EPSIM_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `kPending` of this thread's latest groups are under way.
template <int kPending>
EPSIM_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

EPSIM_DEVICE void sync_block() { __syncthreads(); }
template <class T>
EPSIM_DEVICE T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
// Two bf16, the first in the lower half.
EPSIM_DEVICE std::uint32_t pack(float low, float high) {
  std::uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
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
