// MoonEP: in every layer of every step, every GPU of an NVLink domain computes equally many rows.
//   Models : GPUs tell each other the loads once the routing is known. Repeatedly, the fullest GPU gives the emptiest
//            one as many tokens as bring it to the mean; which tokens: for the largest amount still to give, those of
//            its expert with most tokens left. A GPU receives from one other at most, so that as many slots as it has
//            experts of its own suffice, one set for all layers. Weights come from the expert's home over the domain's
//            links; tokens leave when they have arrived. A domain is a node of the cluster.
//   Ignores: the padding of an expert's rows (128 in the README's example), static shapes and what they save the host,
//            the zero-copy exchange.
//   Readings: a GPU's share is the domain's rows over its GPUs, rounded up (the library takes ranks with equally many
//            tokens). It was made for training; steps of fewer than `prefill_tokens` a GPU are left alone, as UltraEP
//            leaves them. Planning is "negligible" by the README, without a figure: as any plan, 50 us.
//   Source : Ascend/MoonEP at 33327eb, a copy of MoonshotAI/MoonEP (README, tests/planning_reference.py); behaviour
//            only.
//   Valid  : a case done by hand, and exact balance on random loads (tests/policies/transient_copies_test.cpp).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "policies/registry.h"

namespace epsim {
namespace {

class MoonEp final : public TransientCopies {
 public:
  explicit MoonEp(ConfigReader& in) : TransientCopies(in, ExecutionProfile::kAsOwnExperts) {}

 private:
  using Rows = std::vector<std::int64_t>;
  static std::size_t at(std::ptrdiff_t i) { return static_cast<std::size_t>(i); }
  static int largest(const Rows& of) { return static_cast<int>(std::max_element(of.begin(), of.end()) - of.begin()); }

  void balance(const RequestMatrix&, const Residency& home, StepDecision& out) const override {
    for (int first = 0; first < home.gpus; first += home.gpus_per_node) {
      balance_domain(first, home, out);
    }
  }

  // [giver][receiver] rows; `over` [GPU] rows above the mean.
  static std::vector<Rows> quotas(Rows over) {
    std::vector<Rows> out(over.size(), Rows(over.size(), 0));
    while (true) {
      const auto giver = std::max_element(over.begin(), over.end());
      const auto receiver = std::min_element(over.begin(), over.end());
      if (*giver <= 0) {
        return out;
      }
      out[at(giver - over.begin())][at(receiver - over.begin())] = -*receiver;
      *giver += *receiver;
      *receiver = 0;
    }
  }

  static void balance_domain(int first, const Residency& home, StepDecision& out) {
    Rows over;
    for (int g = first; g < std::min(first + home.gpus_per_node, home.gpus); ++g) {
      over.push_back(out.tokens.of_gpu(g));
    }
    const auto gpus = static_cast<std::int64_t>(over.size());
    const std::int64_t share = (std::accumulate(over.begin(), over.end(), std::int64_t{0}) + gpus - 1) / gpus;
    for (std::int64_t& rows : over) {
      rows -= share;
    }
    const std::vector<Rows> give = quotas(std::move(over));
    for (int g = 0; g < std::ssize(give); ++g) {
      give_away(first, g, give[at(g)], home, out);
    }
  }

  static void give_away(int first, int giver, Rows quota, const Residency& home, StepDecision& out) {
    Rows left(at(home.experts()), 0);
    for (int e = 0; e < home.experts(); ++e) {
      left[at(e)] = home.home_of(e) == first + giver ? out.tokens.at(first + giver, e) : 0;
    }
    for (int to = largest(quota); quota[at(to)] > 0; to = largest(quota)) {
      const int expert = largest(left);
      const std::int64_t rows = std::min(left[at(expert)], quota[at(to)]);
      hand_over(out, home, expert, first + to, rows);
      left[at(expert)] -= rows;
      quota[at(to)] -= rows;
    }
  }
};

}  // namespace

extern const StepPolicyEntry kMoonEp{
    {"moonep",
     "Equally many rows on every GPU of an NVLink domain in every step, by copies over NVLink: MoonEP of Kimi-K3.",
     "loads of other NVLink domains, padding of rows, what static shapes save", kPrefillTokensKeys,
     make_policy<MoonEp>}};

}  // namespace epsim
