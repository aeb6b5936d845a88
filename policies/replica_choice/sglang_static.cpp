#include "policies/replica_choice/sglang_static.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "policies/plan_tools.h"
#include "policies/registry.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

// The first `count` elements become a uniform sample without repetition, in random order.
void shuffle_front(std::vector<int>& items, std::size_t count, RandomStream& random) {
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(items[i], items[i + random.below(items.size() - i)]);
  }
}

// `count` choices among `copies` in which no copy is chosen more than once more often than another.
std::vector<int> fair_choices(int copies, int count, RandomStream& random) {
  std::vector<int> once(static_cast<std::size_t>(copies));
  std::iota(once.begin(), once.end(), 0);
  std::vector<int> out;
  for (int round = 0; round < count / copies; ++round) {
    out.insert(out.end(), once.begin(), once.end());
  }
  const auto rest = static_cast<std::size_t>(count % copies);
  shuffle_front(once, rest, random);
  out.insert(out.end(), once.begin(), once.begin() + static_cast<std::ptrdiff_t>(rest));
  shuffle_front(out, out.size(), random);
  return out;
}

class SglangStaticChoice final : public ReplicaChoice {
 public:
  SglangStaticChoice(Near near, Seed seed) : near_(near), seed_(seed) {}

  SourceShares shares(const ChoiceInput& in) const override {
    RandomStream random(seed_, "sglang static", static_cast<std::uint64_t>(in.index));
    const std::vector<int> gpu = gpus_of_slots(in.layer);
    const std::size_t width = in.layer.slots.size();
    SourceShares out{.gpus_per_source = 1, .share = {}};
    out.share.resize(width * static_cast<std::size_t>(in.shape.gpus), 0.0F);
    for (const std::vector<int>& slots : slots_by_expert(in.layer, static_cast<int>(in.loads.size()))) {
      const std::vector<int> holders = mapped(slots, [&](int slot) { return gpu[static_cast<std::size_t>(slot)]; });
      const std::vector<int> copy = sglang_static_copies(holders, in.shape, near_, random);
      for (std::size_t g = 0; g < copy.size(); ++g) {
        out.share[g * width + static_cast<std::size_t>(slots[static_cast<std::size_t>(copy[g])])] = 1.0F;
      }
    }
    return out;
  }

 private:
  Near near_;
  Seed seed_;
};

}  // namespace

std::vector<int> sglang_static_copies(std::span<const int> holders, const ClusterShape& shape, Near near,
                                      RandomStream& random) {
  const auto copies = static_cast<int>(holders.size());
  const auto first = [&](auto here) {
    return static_cast<int>(std::find_if(holders.begin(), holders.end(), here) - holders.begin());
  };
  std::vector<int> out(static_cast<std::size_t>(shape.gpus), 0);
  if (copies == 1) {
    return out;
  }
  int far = 0;
  for (int g = 0; g < shape.gpus; ++g) {
    int& copy = out[static_cast<std::size_t>(g)];
    copy = first([&](int holder) { return holder == g; });
    const auto in_node = [&](int holder) { return shape.node_of(holder) == shape.node_of(g); };
    if (copy == copies && (near == Near::kNode ||
                           (near == Near::kNodeIfFewer && !std::all_of(holders.begin(), holders.end(), in_node)))) {
      copy = first(in_node);
    }
    far += copy == copies ? 1 : 0;
  }
  const std::vector<int> choices = fair_choices(copies, far, random);
  auto next = choices.begin();
  for (int& copy : out) {
    copy = copy == copies ? *next++ : copy;
  }
  return out;
}

namespace {

constexpr KeyTable kSglangStaticKeys({
    {"near", key::one_of<Near>(), key::is(Near::kNode),
     "Copies preferred to those dealt out. sglang_0_4_8, sglang_0_4_10: gpu; SGLang since July 2026: node_if_fewer."},
    {"seed", key::whole(), key::is(42), "Seed of the rule's draws."},
});

std::unique_ptr<ReplicaChoice> make_sglang_static(ConfigReader& options) {
  const auto seed = static_cast<Seed>(options.read<std::int64_t>(kSglangStaticKeys["seed"]));
  return std::make_unique<SglangStaticChoice>(options.read<Near>(kSglangStaticKeys["near"]), seed);
}

}  // namespace

extern const ReplicaChoiceEntry kSglangStatic{
    "sglang_static",
    "A fixed copy per GPU and expert: on the same GPU, else near, else dealt out fairly (SGLang, static).", "loads",
    kSglangStaticKeys, make_sglang_static};

}  // namespace epsim
