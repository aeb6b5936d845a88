// The kernels' arithmetic and indices, run on emulated threads, against float64 references.
#include <doctest/doctest.h>

#include "tests/calibration/emulated_gpu.h"
// After the emulated tools.
#include "calibration/cuda/kernels/token.cuh"
#include "calibration/measure/reference.h"

namespace epsim::test {
namespace {

using namespace measure;
using Bits = std::vector<std::uint16_t>;
constexpr std::uint16_t kPoison = 0xffff;  // a NaN

Bits random_bits(std::size_t count, std::uint64_t seed) {
  Bits out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(bf16_bits(random_value(seed, i, kBf16Steps)));
  }
  return out;
}
double at(const Bits& bits, std::int64_t i) { return bf16_value(bits[static_cast<std::size_t>(i)]); }

TEST_CASE("activation: SiLU of the gate half times the up half") {
  const int rows = 5, width = 24;
  const Bits in = random_bits(static_cast<std::size_t>(rows * 2 * width), 9);
  Bits out(static_cast<std::size_t>(rows * width), kPoison);
  kernel::run_grid({2, 1, 1}, 32, 16, [&](std::uint16_t*) { kernel::silu_mul(in.data(), out.data(), rows, width); });
  OutputError error;
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) {
      error.add(at(out, r * width + i), silu(at(in, r * 2 * width + i)) * at(in, r * 2 * width + width + i), "");
    }
  }
  CHECK(error.relative() < kBf16Bound);

  std::vector<std::uint8_t> small(out.size());
  kernel::run_grid({1, 1, 1}, 64, 16,
                   [&](std::uint16_t*) { kernel::silu_mul_fp8(in.data(), small.data(), rows, width, 16.0f); });
  OutputError coarse;
  for (std::size_t i = 0; i < small.size(); ++i) {
    coarse.add(e4m3_value(small[i]) / 16.0, bf16_value(out[i]), "");
  }
  CHECK(coarse.relative() < 0.05);  // three bits of mantissa
}

TEST_CASE("norm: rows of mean square one") {
  const int rows = 3, width = 2080;  // more than the block's threads times eight
  const Bits in = random_bits(static_cast<std::size_t>(rows * width), 10), weight = random_bits(width, 11);
  Bits out(static_cast<std::size_t>(rows * width), kPoison);
  kernel::run_grid({rows, 1, 1}, kernel::kTokenThreads, 64, [&](std::uint16_t* shared) {
    kernel::rms_norm(in.data(), weight.data(), out.data(), width, reinterpret_cast<float*>(shared));
  });
  OutputError error;
  for (int r = 0; r < rows; ++r) {
    double squares = 0;
    for (int i = 0; i < width; ++i) {
      squares += at(in, r * width + i) * at(in, r * width + i);
    }
    for (int i = 0; i < width; ++i) {
      error.add(at(out, r * width + i), at(in, r * width + i) / std::sqrt(squares / width + 1e-6) * at(weight, i), "");
    }
  }
  CHECK(error.relative() < kBf16Bound);
}

TEST_CASE("top-k: the largest logits in order, equal ones by number, and their softmax") {
  const int tokens = 9, experts = 72, k = 4;  // a second block, lanes with two and three logits
  std::vector<float> logits;
  for (int i = 0; i < tokens * experts; ++i) {
    logits.push_back(4 * random_value(12, static_cast<std::uint64_t>(i), 16));  // a coarse grid has ties
  }
  std::vector<std::int32_t> chosen(tokens * k, -1);
  std::vector<float> weights(tokens * k, -1);
  kernel::run_grid({2, 1, 1}, kernel::kTokenThreads, 16, [&](std::uint16_t*) {
    kernel::top_k(logits.data(), chosen.data(), weights.data(), tokens, experts, k);
  });
  for (int t = 0; t < tokens; ++t) {
    std::vector<int> order(experts);
    for (int e = 0; e < experts; ++e) {
      order[static_cast<std::size_t>(e)] = e;
    }
    const float* row = logits.data() + t * experts;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
    double total = 0;
    for (int i = 0; i < k; ++i) {
      total += std::exp(static_cast<double>(row[order[static_cast<std::size_t>(i)]] - row[order[0]]));
    }
    for (int i = 0; i < k; ++i) {
      const int e = order[static_cast<std::size_t>(i)];
      CHECK(chosen[static_cast<std::size_t>(t * k + i)] == e);
      CHECK(weights[static_cast<std::size_t>(t * k + i)] ==
            doctest::Approx(std::exp(static_cast<double>(row[e] - row[order[0]])) / total));
    }
  }
}

TEST_CASE("permuting and putting back gives each token its weighted sum") {
  const int tokens = 6, width = 40, k = 3;
  const Bits in = random_bits(static_cast<std::size_t>(tokens * width), 13);
  std::vector<std::int32_t> place;
  std::vector<float> weights;
  for (int i = 0; i < tokens * k; ++i) {
    place.push_back(i * 5 % (tokens * k) == 0 && i > 0 ? 0 : i * 5 % (tokens * k));  // 5 and 18 have no common divisor
    weights.push_back(0.125f * static_cast<float>(i % k + 1));
  }
  Bits wide(static_cast<std::size_t>(tokens * k * width), kPoison), out(in.size(), kPoison);
  kernel::run_grid({tokens, 1, 1}, kernel::kTokenThreads, 16,
                   [&](std::uint16_t*) { kernel::permute(in.data(), place.data(), wide.data(), width, k); });
  for (int i = 0; i < tokens * k; ++i) {
    for (int d = 0; d < width; ++d) {
      CHECK(wide[static_cast<std::size_t>(place[static_cast<std::size_t>(i)] * width + d)] ==
            in[static_cast<std::size_t>(i / k * width + d)]);
    }
  }
  kernel::run_grid({tokens, 1, 1}, kernel::kTokenThreads, 16, [&](std::uint16_t*) {
    kernel::unpermute(wide.data(), place.data(), weights.data(), out.data(), width, k);
  });
  OutputError error;
  for (std::int64_t i = 0; i < tokens * width; ++i) {
    error.add(at(out, i), at(in, i) * (0.125 + 0.25 + 0.375), "");
  }
  CHECK(error.relative() < kBf16Bound);
}

}  // namespace
}  // namespace epsim::test
