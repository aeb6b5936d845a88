#include "policies/replica_choice/by_copy.h"

#include <functional>
#include <memory>
#include <utility>

#include "policies/plan_tools.h"
#include "policies/replica_choice.h"
#include "sim/core/config.h"

namespace epsim {
namespace {

constexpr int kAscendRows = 1024;     // of vllm-ascend's routing table
constexpr int kSglangValues = 65536;  // of the random number that SGLang reduces

// How many of 0 .. n - 1 leave `rest` when divided by `by`.
int count_rest(int n, int by, int rest) { return n / by + (rest < n % by ? 1 : 0); }

// Shares by copy rank: source x expert x copies -> [copy].
using RankShares = std::function<std::vector<double>(int source, int expert, int copies)>;

// `rule` where experts have several copies, for sources of `gpus_per_source` GPUs.
class ByCopyChoice final : public ReplicaChoice {
 public:
  ByCopyChoice(bool per_gpu, RankShares rule) : per_gpu_(per_gpu), rule_(std::move(rule)) {}

  SourceShares shares(const ChoiceInput& in) const override {
    const auto slots = slots_by_expert(in.layer, static_cast<int>(in.loads.size()));
    SourceShares out{.gpus_per_source = per_gpu_ ? 1 : in.shape.gpus, .share = {}};
    const std::size_t width = in.layer.slots.size();
    for (int source = 0; source < in.shape.gpus / out.gpus_per_source; ++source) {
      out.share.resize(out.share.size() + width, 1.0F);
      float* row = out.share.data() + static_cast<std::size_t>(source) * width;
      for (std::size_t e = 0; e < slots.size(); ++e) {
        if (slots[e].size() > 1) {
          const std::vector<double> by_rank = rule_(source, static_cast<int>(e), static_cast<int>(slots[e].size()));
          for (std::size_t c = 0; c < by_rank.size(); ++c) {
            row[slots[e][c]] = static_cast<float>(by_rank[c]);
          }
        }
      }
    }
    return out;
  }

 private:
  bool per_gpu_;
  RankShares rule_;
};

}  // namespace

int vllm_copy(std::uint32_t token, int copies) {
  const std::uint32_t hash = token * 2654435769U;  // Knuth's multiplicative hash: 2^32 over the golden ratio
  return static_cast<int>(hash % static_cast<std::uint32_t>(copies));
}

std::vector<double> vllm_shares(int tokens, int copies) {
  std::vector<double> out(static_cast<std::size_t>(copies), 0.0);
  for (int t = 0; t < tokens; ++t) {
    out[static_cast<std::size_t>(vllm_copy(static_cast<std::uint32_t>(t), copies))] += 1.0;
  }
  for (double& share : out) {
    share /= tokens;
  }
  return out;
}

int ascend_copy(int token, int gpu, int expert, int copies) { return (token % kAscendRows + gpu + expert) % copies; }

std::vector<double> ascend_shares(int tokens, int gpu, int expert, int copies) {
  std::vector<double> out(static_cast<std::size_t>(copies), 0.0);
  for (int rest = 0; rest < copies; ++rest) {  // of a table row; whole passes over the table, then a part of it
    const int rows =
        tokens / kAscendRows * count_rest(kAscendRows, copies, rest) + count_rest(tokens % kAscendRows, copies, rest);
    out[static_cast<std::size_t>((rest + gpu + expert) % copies)] = static_cast<double>(rows) / tokens;
  }
  return out;
}

std::vector<double> sglang_dynamic_shares(int copies) {
  std::vector<double> out;
  for (int c = 0; c < copies; ++c) {
    out.push_back(static_cast<double>(count_rest(kSglangValues, copies, c)) / kSglangValues);
  }
  return out;
}

std::unique_ptr<ReplicaChoice> make_even_choice(ConfigReader&) {
  return std::make_unique<ByCopyChoice>(
      false, [](int, int, int copies) { return std::vector<double>(static_cast<std::size_t>(copies), 1.0 / copies); });
}

std::unique_ptr<ReplicaChoice> make_sglang_dynamic_choice(ConfigReader&) {
  return std::make_unique<ByCopyChoice>(false, [](int, int, int copies) { return sglang_dynamic_shares(copies); });
}

std::unique_ptr<ReplicaChoice> make_vllm_hash_choice(ConfigReader& options) {
  const int tokens = options.optional("tokens", 256, Bound::kPositive);
  return std::make_unique<ByCopyChoice>(false, [=](int, int, int copies) { return vllm_shares(tokens, copies); });
}

std::unique_ptr<ReplicaChoice> make_ascend_rotation_choice(ConfigReader& options) {
  const int tokens = options.optional("tokens", kAscendRows, Bound::kPositive);
  return std::make_unique<ByCopyChoice>(
      true, [=](int gpu, int expert, int copies) { return ascend_shares(tokens, gpu, expert, copies); });
}

}  // namespace epsim
