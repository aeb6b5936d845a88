// For loops whose lanes never mix: compiled for the widest vectors that the processor has, chosen when the program
// starts. No multiplication is fused with an addition (AVX2 alone brings no such instruction), so every width gives the
// same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define EPSIM_WIDEST_VECTORS __attribute__((target_clones("avx2", "default"), flatten))
#else
#define EPSIM_WIDEST_VECTORS
#endif
