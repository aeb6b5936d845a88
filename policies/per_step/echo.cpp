// ECHO (elastic cloning for hot experts): in every layer of every step, each GPU below the mean takes one hot expert's
// overflow.
//   Models : once the routing is known, GPUs tell each other the counts. A GPU's overflow is what its experts, fewest
//            tokens first, have beyond the mean load. GPUs with room, most first, each take tokens of the expert with
//            most overflow left, up to their room, and its weights: one spare slot a GPU, one set for all layers. All
//            GPUs of the instance are one domain: weights cross nodes as well. Weights come from the expert's home
//            before tokens leave.
//   Ignores: that the original sorts overflow into eight classes (here: the largest), which source's tokens it moves
//            first, its second algorithm (one_shot_greedy) and more than one slot; gradients.
//   Readings: it was made for training; steps of fewer than `prefill_tokens` a GPU are left alone, as UltraEP leaves
//            them. Planning has no published time: as any plan, 50 us.
//   Source : NVIDIA/Megatron-LM PR 2368, megatron/core/transformer/moe/offloading_planner.py (gen_intermediate,
//            approx_bin_packing); arXiv 2603.07685, section "ECHO"; behaviour only.
//   Valid  : a case done by hand (tests/policies/transient_copies_test.cpp).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/registry.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

class Echo final : public TransientCopies {
 public:
  explicit Echo(ConfigReader& in) : TransientCopies(in, 1) {}

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  // [expert] Tokens beyond the mean load of its GPU, whose smaller experts come first.
  static std::vector<std::int64_t> overflow_of(const TokenAssignment& tokens, const Residency& home,
                                               std::int64_t mean) {
    const auto load = [&](int e) { return tokens.at(home.home_of(e), e); };
    std::vector<std::int64_t> out(at(home.experts()), 0), so_far(at(home.gpus), 0);
    for (const int e : sorted_ids(home.experts(), [&](int a, int b) { return load(a) < load(b); })) {
      std::int64_t& sum = so_far[at(home.home_of(e))];
      const std::int64_t before = std::max<std::int64_t>(sum - mean, 0);
      sum += load(e);
      out[at(e)] = std::max<std::int64_t>(sum - mean, 0) - before;
    }
    return out;
  }

  void balance(const RequestMatrix& requests, const Residency& home, StepDecision& out) const override {
    const std::int64_t mean = requests.total() / home.gpus;
    std::vector<std::int64_t> overflow = overflow_of(out.tokens, home, mean), room;
    for (int g = 0; g < home.gpus; ++g) {
      room.push_back(mean - out.tokens.of_gpu(g));
    }
    for (const int g : sorted_ids(home.gpus, [&](int a, int b) { return room[at(a)] > room[at(b)]; })) {
      const auto most = std::max_element(overflow.begin(), overflow.end());
      const std::int64_t tokens = std::min(*most, room[at(g)]);
      if (tokens <= 0) {
        return;
      }
      hand_over(out, home, static_cast<int>(most - overflow.begin()), g, tokens);
      *most -= tokens;
    }
  }
};

}  // namespace

extern const StepPolicyEntry kEcho{
    {"echo", "One hot expert's overflow cloned onto each GPU below the mean in every step: ECHO of Megatron-Core.",
     "which source's tokens move, more than one clone on a GPU, the topology", kPrefillTokensKeys, make_policy<Echo>}};

}  // namespace epsim
