// LPLB: in every layer of every step, tokens are split over the copies that a placement has made so that the fullest
// GPU is as light as it can be.
//   Models : minimise over the copies' loads the largest GPU load, where an expert's copies share its tokens and experts
//            of one copy have no choice; solved to the token. Tokens draw a copy by its share, wherever they live.
//            All GPUs add up their counts by expert and solve the same programme before dispatch.
//   Ignores: what five steps of the original's interior-point solver in float32 lack of the optimum; which of several
//            optima it finds; DeepSeek's own topologies of copies (cube, torus) and its exchange over NVSHMEM.
//   Source : SGLang, `--ep-dispatch-algorithm lp` (PR 24515); deepseek-ai/LPLB, README: about 100 us a solve; LMSYS blog of
//            2026-06-26, "Improving DeepEP MoE Load Balance in SGLang with Waterfill and LPLB", for the programme.
//   Valid  : equal to GLPK's simplex on random cases of 2 to 64 GPUs (tests/policies/lplb_glpk_test.cpp), in 25 to 145 us where GLPK
//            takes 2.4 to 4.3 ms (16 to 64 GPUs, 256 and 384 experts), and to the bound that every set of GPUs gives
//            (lplb_test.cpp); gains beside measured ones in experiments/eplb-measured.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/registry.h"

namespace epsim {
namespace {

// Every expert's tokens on GPUs that hold it, the fullest GPU as light as whole tokens allow: max flow from experts over
// their copies to GPUs of a common height. Where the height is too low, the GPUs that a stuck expert reaches are a cut:
// all that they and their experts bring, spread over them, is the next height to try.
class LowestPeak {
 public:
  LowestPeak(const RequestMatrix& requests, const Residency& held)
      : held_(held), load_(static_cast<std::size_t>(held.gpus), 0), out_(held.gpus, held.experts()) {
    for (int e = 0; e < held.experts(); ++e) {
      const std::int64_t tokens = requests.of_expert(e);
      if (held.copies(e) == 1) {
        out_.at(held.home_of(e), e) = tokens;
        load_[at(held.home_of(e))] += tokens;
      } else if (tokens > 0) {
        split_.push_back({e, tokens, {}});
        for (int g = 0; g < held.gpus; ++g) {
          if (held.holds(e, g)) {
            split_.back().gpus.push_back(g);
          }
        }
      }
    }
    through_.assign(split_.size(), -1);
    const std::int64_t mean = (requests.total() + held.gpus - 1) / held.gpus;
    height_ = std::max(mean, *std::max_element(load_.begin(), load_.end()));
  }

  TokenAssignment solve() {
    for (Split& split : split_) {
      while (split.left > 0) {
        if (!push(split)) {
          raise();
        }
      }
    }
    return std::move(out_);
  }

 private:
  struct Split {
    int expert;
    std::int64_t left;  // not on a GPU yet
    std::vector<int> gpus;
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  // Some of what is left to a GPU with room, by the shortest way: straight, or with others' tokens making room on the
  // way. False where there is none; reached_ then holds the cut.
  bool push(Split& from) {
    reached_.assign(split_.size(), false);
    came_.assign(at(held_.gpus), {});
    std::vector<std::size_t> queue{static_cast<std::size_t>(&from - split_.data())};
    reached_[queue.front()] = true;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      for (const int g : split_[queue[next]].gpus) {
        if (came_[at(g)].known) {
          continue;
        }
        came_[at(g)] = {true, queue[next]};
        if (load_[at(g)] < height_) {
          move(from, g);
          return true;
        }
        reach_from(g, queue);
      }
    }
    return false;
  }

  void reach_from(int g, std::vector<std::size_t>& queue) {
    for (std::size_t i = 0; i < split_.size(); ++i) {
      if (!reached_[i] && out_.at(g, split_[i].expert) > 0) {
        reached_[i] = true;
        through_[i] = g;
        queue.push_back(i);
      }
    }
  }

  void move(Split& from, int last) {
    std::int64_t amount = std::min(from.left, height_ - load_[at(last)]);
    const auto walk = [&](auto step) {
      int g = last;
      for (std::size_t i = came_[at(g)].split; &split_[i] != &from; i = came_[at(g)].split) {
        const int out_of = through_[i];
        step(i, out_of, g);
        g = out_of;
      }
      return g;
    };
    walk([&](std::size_t i, int out_of, int) { amount = std::min(amount, out_.at(out_of, split_[i].expert)); });
    const int first = walk([&](std::size_t i, int out_of, int into) {
      out_.at(out_of, split_[i].expert) -= amount;
      out_.at(into, split_[i].expert) += amount;
    });
    out_.at(first, from.expert) += amount;
    load_[at(last)] += amount;
    from.left -= amount;
  }

  // All GPUs that were reached are full: what they hold and what is still to come to them has to lie on them alone.
  void raise() {
    std::int64_t forced = 0, gpus = 0;
    for (int g = 0; g < held_.gpus; ++g) {
      if (came_[at(g)].known) {
        forced += load_[at(g)];
        ++gpus;
      }
    }
    for (std::size_t i = 0; i < split_.size(); ++i) {
      forced += reached_[i] ? split_[i].left : 0;
    }
    height_ = (forced + gpus - 1) / gpus;
  }

  struct Came {
    bool known = false;
    std::size_t split = 0;  // the expert that reached the GPU
  };
  const Residency& held_;
  std::vector<std::int64_t> load_;
  TokenAssignment out_;
  std::vector<Split> split_;  // experts with a choice
  std::int64_t height_ = 0;
  std::vector<bool> reached_;  // [split]
  std::vector<Came> came_;     // [GPU]
  std::vector<int> through_;   // [split] the GPU that it was reached from
};

constexpr KeyTable kLplbKeys({
    {"planning_time", key::time(), key::is(Seconds(100e-6)),
     "Time of a solve on the GPU, as stated by deepseek-ai/LPLB."},
});

class Lplb final : public StepPolicy {
 public:
  explicit Lplb(ConfigReader& in) { in.preset(kLplbKeys["planning_time"]); }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    return {.tokens = LowestPeak(requests, home).solve(), .copies = {}};
  }
  ExecutionProfile profile() const override {
    return {.tells = ExecutionProfile::Tells::kCounts,
            .plans_before_dispatch = true,
            .starts_from_copies = true,
            .draws_copies = true};
  }
};

}  // namespace

extern const StepPolicyEntry kLplb{
    {"lplb",
     "Tokens split over the copies of `home` by a linear programme in every step: SGLang's `--ep-dispatch-algorithm "
     "lp`.",
     "what the original's five interior-point steps lack of the optimum; its copies along a topology", kLplbKeys,
     make_policy<Lplb>},
    false,
    false};

}  // namespace epsim
