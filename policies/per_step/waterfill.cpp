// Waterfill: the shared expert's tokens, which every GPU would compute where they live, go to GPUs with few routed ones.
//   Models : the shared expert as one more routed expert with a copy on every GPU. A waterline H = (all GPUs' loads + all
//            tokens) / GPUs, rounded up; each token draws a GPU with chance in proportion to max(H - load, 0), a tenth
//            more for its own. A GPU's load is its routed assignments plus the tokens that live on it, added up over all
//            GPUs; with own_counts, which SGLang does where experts were placed by an initial recording, each GPU
//            goes by the routed assignments of its own tokens alone. Without own_counts a token chooses among its own GPU and
//            those that it visits anyway, unless no load is above H. GPUs of fewer than 64 tokens keep theirs.
//            Shares are expectations: of a GPU's chance given that the token visits it, others as they are on average.
//   Ignores: the drawing itself; which copy of a routed expert is the nearest (copies share evenly).
//   Source : SGLang, `--enable-deepep-waterfill` (PR 20089, 19290): layers/moe/deepep_waterfill.py at 0389b97; behaviour only.
//   Valid  : cases done by hand (tests/policies/waterfill_test.cpp); gains beside measured ones in experiments/eplb-measured.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "policies/registry.h"

namespace epsim {
namespace {

constexpr double kOwnPreference = 11.0 / 10.0;
constexpr std::int64_t kFewTokens = 64;  // of a GPU, below which it keeps them

// Where each GPU's tokens have their shared expert, given who computes the routed ones.
class WaterLine {
 public:
  WaterLine(const RequestMatrix& requests, const TokenAssignment& routed, bool own_counts)
      : requests_(requests), routed_(routed), own_counts_(own_counts), all_(sum_up()) {}

  SharedDispatch shares() const {
    SharedDispatch out{std::vector<double>(at(gpus()) * at(gpus()), 0.0), !own_counts_ && !all_.under_water};
    for (int s = 0; s < gpus(); ++s) {
      double* row = out.share.data() + at(s) * at(gpus());
      if (requests_.tokens_of(s) < kFewTokens) {
        row[s] = 1.0;
      } else {
        fill(s, out.only_visited, row);
      }
    }
    return out;
  }

 private:
  struct Loads {
    std::vector<double> load;  // [GPU]
    double line = 0;
    bool under_water = false;  // no load above the line
  };
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int gpus() const { return requests_.gpus; }

  Loads with_line(std::vector<double> load, double tokens) const {
    const double sum = std::accumulate(load.begin(), load.end(), 0.0);
    const double line = std::ceil((sum + tokens) / gpus());
    const bool under_water = *std::max_element(load.begin(), load.end()) <= line;
    return {std::move(load), line, under_water};
  }

  Loads sum_up() const {
    std::vector<double> load;
    double tokens = 0;
    for (int g = 0; g < gpus(); ++g) {
      load.push_back(static_cast<double>(routed_.of_gpu(g) + requests_.tokens_of(g)));
      tokens += static_cast<double>(requests_.tokens_of(g));
    }
    return with_line(std::move(load), tokens);
  }

  // Of the source's own tokens; and by GPU the chance that one of them goes there for a routed expert.
  struct Own {
    std::vector<double> rows, missed;
  };
  Own own(int source) const {
    Own out{std::vector<double>(at(gpus()), 0.0), std::vector<double>(at(gpus()), 1.0)};
    const auto tokens = static_cast<double>(requests_.tokens_of(source));
    for (int e = 0; e < requests_.experts; ++e) {
      const auto asked = static_cast<double>(requests_.at(source, e));
      if (asked == 0) {
        continue;
      }
      const auto all = static_cast<double>(requests_.of_expert(e));
      for (int g = 0; g < gpus(); ++g) {
        const double rows = asked * static_cast<double>(routed_.at(g, e)) / all;
        out.rows[at(g)] += rows;
        out.missed[at(g)] *= std::max(0.0, 1.0 - rows / tokens);
      }
    }
    return out;
  }

  void fill(int source, bool only_visited, double* row) const {
    const Own mine = own(source);
    const Loads loads = own_counts_ ? with_line(mine.rows, static_cast<double>(requests_.tokens_of(source))) : all_;
    std::vector<double> slack(at(gpus())), visits(at(gpus()), 1.0);
    double expected = 0, none = 1.0;
    for (int g = 0; g < gpus(); ++g) {
      slack[at(g)] = std::max(0.0, loads.line - loads.load[at(g)]) / (g == source ? 1.0 : kOwnPreference);
      visits[at(g)] = only_visited && g != source ? 1.0 - mine.missed[at(g)] : 1.0;
      expected += slack[at(g)] * visits[at(g)];
      none *= slack[at(g)] > 0 ? 1.0 - visits[at(g)] : 1.0;
    }
    double sum = 0;
    for (int g = 0; g < gpus(); ++g) {
      const double here = slack[at(g)];
      row[g] = here > 0 ? visits[at(g)] * here / (here + expected - here * visits[at(g)]) : 0.0;
      sum += row[g];
    }
    for (int g = 0; g < gpus(); ++g) {
      row[g] = sum > 0 ? row[g] / sum * (1.0 - none) : 0.0;
    }
    row[source] += sum > 0 ? none : 1.0;  // a token none of whose GPUs has room stays
  }

  const RequestMatrix& requests_;
  const TokenAssignment& routed_;
  bool own_counts_;
  Loads all_;
};

constexpr KeyTable kWaterfillKeys({
    {"own_counts", key::flag(), key::is(false),
     "Each GPU goes by its own tokens, without an all-reduce: SGLang with an initial expert location."},
});

class Waterfill final : public StepPolicy {
 public:
  explicit Waterfill(ConfigReader& in) : own_counts_(in.read<bool>(kWaterfillKeys["own_counts"])) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    StepDecision out{.tokens = even_split(requests, home), .copies = {}};
    out.shared = WaterLine(requests, out.tokens, own_counts_).shares();
    return out;
  }
  ExecutionProfile profile() const override {
    return {.tells = own_counts_ ? ExecutionProfile::Tells::kNothing : ExecutionProfile::Tells::kCounts,
            .plans_before_dispatch = true,
            .starts_from_copies = true,
            .draws_copies = true,
            .dispatches_shared = true};
  }

 private:
  bool own_counts_;
};

}  // namespace

extern const StepPolicyEntry kWaterfill{
    {"waterfill", "The shared expert's tokens go to the lighter GPUs: SGLang's `--enable-deepep-waterfill`.",
     "the drawing of each token's GPU (its chances are taken), two copies of an expert on one GPU", kWaterfillKeys,
     make_policy<Waterfill>},
    false,
    false};

}  // namespace epsim
