// Lina's copies in proportion to the popularity that is predicted for the next layer's experts.
//   Source  : Li et al., "Accelerating Distributed MoE Training and Inference with Lina", USENIX ATC 2023, as Libra's
//             Sec. 5 describes its own version (path of the last l = 4 layers, N extra experts per GPU, tokens split
//             evenly). No code by the authors is public: this follows the descriptions.
//   Readings: copies go one by one to the expert with most tokens per copy, on the lightest GPU without it that has room.
//   Ignores : its table of paths. What a prediction gets right is the scenario's `accuracy`.
#include <algorithm>
#include <vector>

#include "policies/registry.h"

namespace epsim {
namespace {

// n_extra more experts on every GPU for the predicted tokens per expert. A GPU that holds every expert gets none; nor
// does any where no tokens are predicted.
Residency lina_replicate(const std::vector<double>& popularity, const Residency& home, int n_extra) {
  Residency out = home;
  std::vector<int> copies(popularity.size(), 1);
  std::vector<double> share = popularity;  // [expert] of each of its copies
  std::vector<int> room(static_cast<std::size_t>(home.gpus), n_extra);
  std::vector<std::vector<int>> held(room.size());  // [GPU] experts, in order
  for (int e = 0; e < home.experts(); ++e) {
    for (int g = 0; g < home.gpus; ++g) {
      if (home.holds(e, g)) {
        held[static_cast<std::size_t>(g)].push_back(e);
      }
    }
  }
  const auto load_of = [&](int gpu) {
    double load = 0;
    for (const int e : held[static_cast<std::size_t>(gpu)]) {
      load += share[static_cast<std::size_t>(e)];
    }
    return load;
  };
  std::vector<int> open(popularity.size());  // experts that may still find a GPU
  for (std::size_t e = 0; e < open.size(); ++e) {
    open[e] = static_cast<int>(e);
  }
  const bool predicted = std::any_of(popularity.begin(), popularity.end(), [](double tokens) { return tokens > 0; });
  for (int left = predicted ? n_extra * home.gpus : 0; left > 0 && !open.empty();) {
    const auto hottest = std::max_element(open.begin(), open.end(), [&](int a, int b) {
      return share[static_cast<std::size_t>(a)] < share[static_cast<std::size_t>(b)];
    });
    int target = -1;
    double lightest = 0;
    for (int g = 0; g < home.gpus; ++g) {
      if (room[static_cast<std::size_t>(g)] > 0 && !out.holds(*hottest, g)) {
        const double load = load_of(g);
        if (target < 0 || load < lightest) {
          target = g;
          lightest = load;
        }
      }
    }
    if (target < 0) {
      open.erase(hottest);
      continue;
    }
    out.add(*hottest, target);
    std::vector<int>& there = held[static_cast<std::size_t>(target)];
    there.insert(std::upper_bound(there.begin(), there.end(), *hottest), *hottest);
    const auto e = static_cast<std::size_t>(*hottest);
    share[e] = popularity[e] / ++copies[e];
    --room[static_cast<std::size_t>(target)];
    --left;
  }
  return out;
}

constexpr KeyTable kLinaKeys({
    {"n_extra", key::whole(), key::is(8), "Experts brought to a GPU per layer."},
    {"accuracy", key::number(kShare), key::is(0.44), "Share of assignments predicted right: Libra's Table 1 of Lina."},
});

class Lina final : public StepPolicy {
 public:
  explicit Lina(ConfigReader& in) : n_extra_(in.read<int>(kLinaKeys["n_extra"])) { in.preset(kLinaKeys["accuracy"]); }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                      const Residency& home) const override {
    std::vector<double> popularity;
    for (int e = 0; e < predicted.experts; ++e) {
      popularity.push_back(static_cast<double>(predicted.of_expert(e)));
    }
    const Residency held = lina_replicate(popularity, home, n_extra_);
    return with_copies_of(held, even_split(requests, held));
  }
  ExecutionProfile profile() const override {
    return {.resident_buffers = 1, .extra_experts = n_extra_, .uses_prediction = true};
  }

 private:
  int n_extra_;
};

}  // namespace

extern const StepPolicyEntry kLina{
    {"lina", "Popular experts copied by prediction, tokens split evenly: Lina (ATC 2023) as Libra's Sec. 5 runs it.",
     "loads when it splits tokens, phase 2 of the original paper, which corrects misses", kLinaKeys, make_policy<Lina>},
    true};

}  // namespace epsim
