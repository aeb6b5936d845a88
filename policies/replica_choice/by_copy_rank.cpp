#include "policies/replica_choice/by_copy_rank.h"

#include <functional>
#include <memory>
#include <utility>

#include "policies/plan_tools.h"
#include "policies/registry.h"

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

namespace {

constexpr std::string_view kTokens = "Tokens of a rank over which the rule's shares are worked out.";
constexpr KeyTable kVllmHashKeys({{"tokens", key::whole(Bound::kPositive), key::is(256), kTokens}});
constexpr KeyTable kAscendKeys({{"tokens", key::whole(Bound::kPositive), key::is(kAscendRows), kTokens}});

std::unique_ptr<ReplicaChoice> make_even_choice(ConfigReader&) {
  return std::make_unique<ByCopyChoice>(
      false, [](int, int, int copies) { return std::vector<double>(static_cast<std::size_t>(copies), 1.0 / copies); });
}

std::unique_ptr<ReplicaChoice> make_sglang_dynamic(ConfigReader&) {
  return std::make_unique<ByCopyChoice>(false, [](int, int, int copies) { return sglang_dynamic_shares(copies); });
}

std::unique_ptr<ReplicaChoice> make_vllm_hash(ConfigReader& options) {
  const int tokens = options.read<int>(kVllmHashKeys["tokens"]);
  return std::make_unique<ByCopyChoice>(false, [=](int, int, int copies) { return vllm_shares(tokens, copies); });
}

std::unique_ptr<ReplicaChoice> make_ascend_rotation(ConfigReader& options) {
  const int tokens = options.read<int>(kAscendKeys["tokens"]);
  return std::make_unique<ByCopyChoice>(
      true, [=](int gpu, int expert, int copies) { return ascend_shares(tokens, gpu, expert, copies); });
}

}  // namespace

extern const ReplicaChoiceEntry kEven{
    "even",
    "Copies of an expert share its tokens equally, wherever they come from (CRAFT's balancedness, Sec. 3.1).",
    "where tokens are, loads",
    {},
    make_even_choice};
extern const ReplicaChoiceEntry kSglangDynamic{
    "sglang_dynamic",
    "A random copy for every token: 16 random bits modulo the number of copies (SGLang, dynamic).",
    "where tokens are, loads, the spread of the draw",
    {},
    make_sglang_dynamic};
extern const ReplicaChoiceEntry kVllmHash{
    "vllm_hash", "The token's row, hashed by multiplication, modulo the number of copies (vLLM since PR 40810).",
    "where tokens are, loads", kVllmHashKeys, make_vllm_hash};
extern const ReplicaChoiceEntry kAscendRotation{
    "ascend_rotation",
    "Token row + GPU + expert, modulo the number of copies, with rows repeating after 1024 (vllm-ascend).",
    "loads, which node a copy is on", kAscendKeys, make_ascend_rotation};

}  // namespace epsim
