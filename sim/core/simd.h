// For loops whose lanes never mix: compiled for AVX2 beside the plain instructions, chosen when the program starts. No
// multiplication is fused with an addition (-ffp-contract=off), so both give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define EPSIM_SIMD __attribute__((target_clones("avx2", "default"), flatten))
#else
#define EPSIM_SIMD
#endif

// For what such functions share.
#if defined(__GNUC__)
#define EPSIM_INLINE inline __attribute__((always_inline))
#else
#define EPSIM_INLINE inline
#endif
