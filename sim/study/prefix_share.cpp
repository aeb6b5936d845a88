#include "sim/study/prefix_share.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "sim/core/check.h"
#include "sim/scheduler/router.h"

namespace epsim {

namespace {

constexpr std::size_t kWord = 64;

// Which instances hold which blocks, a bit for each of them.
class Holders {
 public:
  Holders(std::size_t instances, std::size_t blocks)
      : words_((instances + kWord - 1) / kWord), bits_(words_ * blocks), left_(words_) {}

  // Of the first `blocks` that each instance holds without a gap, how many: into `held`.
  void count(std::span<const std::int32_t> blocks, std::span<std::int64_t> held) {
    std::ranges::fill(left_, ~std::uint64_t{0});
    std::ranges::fill(held, std::ssize(blocks));
    bool any = true;
    for (std::size_t b = 0; b < blocks.size() && any; ++b) {
      const std::uint64_t* holders = &bits_[static_cast<std::size_t>(blocks[b]) * words_];
      any = false;
      for (std::size_t w = 0; w < words_; ++w) {
        for (std::uint64_t gone = left_[w] & ~holders[w]; gone != 0; gone &= gone - 1) {
          const std::size_t instance = w * kWord + static_cast<std::size_t>(std::countr_zero(gone));
          if (instance < held.size()) {
            held[instance] = static_cast<std::int64_t>(b);
          }
        }
        left_[w] &= holders[w];
        any = any || left_[w] != 0;
      }
    }
  }
  void add(std::span<const std::int32_t> blocks, std::size_t instance) {
    for (const std::int32_t block : blocks) {
      bits_[static_cast<std::size_t>(block) * words_ + instance / kWord] |= std::uint64_t{1} << instance % kWord;
    }
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_, left_;  // [block][word of instances]; [word]: those without a gap so far
};

}  // namespace

std::vector<std::size_t> prefix_share(const RequestTrace& trace, std::size_t instances) {
  EPSIM_CHECK(trace.prefixes.known() && instances > 0, "a trace with prefixes, for some instances");
  Holders holders(instances, static_cast<std::size_t>(trace.prefixes.distinct));
  std::vector<std::vector<std::size_t>> sent(instances);
  std::vector<RouterChoice> choices(instances);
  std::vector<std::int64_t> held(instances);
  for (std::size_t r = 0; r < trace.requests.size(); ++r) {
    const std::int64_t input = trace.requests[r].input_tokens;
    const auto blocks = trace.prefixes.of(r);
    holders.count(blocks, held);
    for (std::size_t i = 0; i < instances; ++i) {
      choices[i].cached_tokens = std::min(input, held[i] * trace.prefixes.block_tokens);
    }
    const std::size_t chosen = pick_choice(Router::kCacheAware, choices, input);
    sent[chosen].push_back(r);
    choices[chosen].load.running = std::ssize(sent[chosen]);
    holders.add(blocks, chosen);
  }
  const double even = static_cast<double>(trace.requests.size()) / static_cast<double>(instances);
  const auto off = [even](const auto& of) { return std::abs(static_cast<double>(of.size()) - even); };
  return *std::ranges::min_element(sent, {}, off);
}

}  // namespace epsim
