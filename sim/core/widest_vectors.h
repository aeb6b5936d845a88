// For loops whose lanes never mix: compiled for the widest vectors that the processor has, chosen when the program
// starts. No multiplication is fused with an addition (-ffp-contract=off), so every width gives the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define EPSIM_WIDEST_VECTORS __attribute__((target_clones("avx512f", "avx2", "default"), flatten))
#else
#define EPSIM_WIDEST_VECTORS
#endif

// For loops that are written with vectors of a width of their own: one function per level, called by vector_level().
#if defined(__x86_64__)
#define EPSIM_VECTOR_LEVELS
#define EPSIM_AVX2 __attribute__((target("avx2")))
#define EPSIM_AVX512 __attribute__((target("avx512f")))
#endif

// For what such functions share.
#if defined(__GNUC__)
#define EPSIM_INLINE inline __attribute__((always_inline))
#else
#define EPSIM_INLINE inline
#endif

namespace epsim {

enum class VectorLevel { kPlain, kAvx2, kAvx512 };

// The highest that the processor has; it has those below too.
inline VectorLevel vector_level() {
#ifdef EPSIM_VECTOR_LEVELS
  static const VectorLevel level = __builtin_cpu_supports("avx512f") != 0 ? VectorLevel::kAvx512
                                   : __builtin_cpu_supports("avx2") != 0  ? VectorLevel::kAvx2
                                                                          : VectorLevel::kPlain;
  return level;
#else
  return VectorLevel::kPlain;
#endif
}

}  // namespace epsim
