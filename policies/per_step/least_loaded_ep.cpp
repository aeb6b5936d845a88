// Least-loaded expert parallelism: what does not fit at an expert's home spills to the lightest GPUs, weights included.
//   Source : SalesforceAIResearch/LeastLoadedEP at 11730c8 (arXiv 2601.17111); behaviour only.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/registry.h"
#include "policies/step_policy.h"
#include "sim/core/sorted_ids.h"

namespace epsim {
namespace {

struct LeastLoadedOptions {
  double capacity_factor = 1.1;   // a GPU takes at most this many times the (whole-number) mean
  std::int64_t min_chunk = 1024;  // a smaller spill is made only when it is the expert's last
  double min_imbalance = 1.3;     // max / mean below or at which everything stays at home; <= 1 plans always
};

class LeastLoadedPlanner {
 public:
  LeastLoadedPlanner(const RequestMatrix& requests, const Residency& home, const LeastLoadedOptions& options)
      : home_(home), options_(options), out_(home.gpus, home.experts()) {
    const std::int64_t mean = requests.total() / home.gpus;
    const double capacity =
        mean > 0 ? options.capacity_factor * static_cast<double>(mean) : static_cast<double>(requests.total());
    capacity_ = std::max<std::int64_t>(static_cast<std::int64_t>(capacity), 1);
    expected_.assign(static_cast<std::size_t>(home.gpus), 0);
    for (int e = 0; e < home.experts(); ++e) {
      tokens_.push_back(requests.of_expert(e));
      expected_[static_cast<std::size_t>(home.home_of(e))] += tokens_.back();
    }
  }

  TokenAssignment plan() {
    for (const int e : sorted_ids(home_.experts(), [&](int a, int b) { return tokens_of(a) > tokens_of(b); })) {
      place(e);
    }
    return std::move(out_);
  }

 private:
  std::int64_t tokens_of(int expert) const { return tokens_[static_cast<std::size_t>(expert)]; }
  std::int64_t& expected(int gpu) { return expected_[static_cast<std::size_t>(gpu)]; }
  std::int64_t room(int gpu) { return capacity_ - expected(gpu); }

  void assign(int expert, int gpu, std::int64_t tokens) {
    out_.at(gpu, expert) += tokens;
    expected(gpu) += tokens;
  }

  void place(int expert) {
    const int home = home_.home_of(expert);
    std::int64_t left = tokens_of(expert);
    if (left == 0) {
      return;
    }
    expected(home) -= left;  // from now on it counts where it is put
    const std::int64_t stays = home_.gpus == 1 ? left : std::clamp<std::int64_t>(room(home), 0, left);
    if (stays > 0) {
      assign(expert, home, stays);
      left -= stays;
    }
    if (left > 0) {
      spill(expert, left, stays > 0);
    }
  }

  // Helpers by load, the lightest first.
  std::vector<int> helpers(int home) {
    std::vector<int> out;
    for (int g = 0; g < home_.gpus; ++g) {
      if (g != home) {
        out.push_back(g);
      }
    }
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return expected(a) < expected(b); });
    return out;
  }

  // Chunk after chunk to helpers that have room; what finds none is forced on the lightest. The original looks at the
  // loads again after every chunk when part of the expert stayed at home, and only once when all of it must go.
  void spill(int expert, std::int64_t left, bool look_again) {
    std::vector<int> order = helpers(home_.home_of(expert));
    for (auto helper = order.begin(); helper != order.end() && left > 0;) {
      const std::int64_t chunk = std::min(left, room(*helper));
      const bool worth_it = chunk > 0 && (chunk >= options_.min_chunk || chunk == left);
      if (worth_it) {
        assign(expert, *helper, chunk);
        left -= chunk;
      }
      ++helper;
      if (worth_it && look_again) {
        order = helpers(home_.home_of(expert));
        helper = order.begin();
      }
    }
    if (left > 0) {
      assign(expert, order.front(), left);
    }
  }

  const Residency& home_;
  LeastLoadedOptions options_;
  std::int64_t capacity_ = 0;
  std::vector<std::int64_t> tokens_;    // [expert]
  std::vector<std::int64_t> expected_;  // [GPU] assigned so far, and native experts still to come
  TokenAssignment out_;
};

constexpr KeyTable kLeastLoadedEpKeys({
    {"capacity_factor", key::number(Bound::kPositive), key::is(LeastLoadedOptions{}.capacity_factor),
     "Load over the mean above which tokens spill."},
    {"min_chunk", key::whole(Bound::kPositive), key::is(LeastLoadedOptions{}.min_chunk), "Fewest tokens worth moving."},
    {"min_imbalance", key::number(), key::is(LeastLoadedOptions{}.min_imbalance),
     "Imbalance below which nothing moves."},
});

class LeastLoaded final : public StepPolicy {
 public:
  explicit LeastLoaded(ConfigReader& in)
      : options_{.capacity_factor = in.read<double>(kLeastLoadedEpKeys["capacity_factor"]),
                 .min_chunk = in.read<std::int64_t>(kLeastLoadedEpKeys["min_chunk"]),
                 .min_imbalance = in.read<double>(kLeastLoadedEpKeys["min_imbalance"])} {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    StepDecision at_home = all_at_home(requests, home);
    if (imbalance(at_home.tokens) <= options_.min_imbalance) {
      return at_home;
    }
    return with_needed_copies(home, LeastLoadedPlanner(requests, home, options_).plan());
  }
  ExecutionProfile profile() const override { return {.plans_before_dispatch = true, .copies_on_demand = true}; }

 private:
  LeastLoadedOptions options_;
};

}  // namespace

extern const StepPolicyEntry kLeastLoadedEp{
    {"least_loaded_ep", "What does not fit at home spills to the lightest GPUs: least-loaded EP (arXiv 2601.17111).",
     "nodes, any gain below min_imbalance", kLeastLoadedEpKeys, make_policy<LeastLoaded>}};

}  // namespace epsim
