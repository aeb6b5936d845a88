// Claims that follow from counting, from memory and from the algorithm alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "policies/placement/craft/allocation.h"
#include "policies/placement/craft/craft.h"
#include "sim/core/check.h"
#include "sim/reproduce/craft_claims.h"

namespace epsim {
namespace {

using Needs = std::vector<CraftNeed>;
using Rows = std::vector<ClaimRow>;
constexpr std::string_view kEightNodes[] = {"de8", "dj8", "dl8", "da8", "ke8", "kj8", "kl8", "ka8"};
constexpr std::string_view kDatasets[] = {"ke", "kj", "kl"};

// Every policy of `policies` on every setup of `setups` that is in scope.
Needs plans(const CraftScope& scope, std::initializer_list<std::string_view> setups,
            std::initializer_list<std::string_view> policies) {
  Needs out;
  for (const std::string_view setup : scope.of({setups.begin(), setups.size()})) {
    for (const std::string_view policy : policies) {
      out.push_back({setup, policy});
    }
  }
  return out;
}

ClaimRow row(std::string id, std::string what, std::string paper, ClaimKind kind, double value, double low, double high,
             std::string unit = "") {
  ClaimRow out = named_row(std::move(id), std::move(what), std::move(paper), std::move(unit));
  out.kind = kind;
  out.value = value;
  out.low = low;
  out.high = high;
  return out;
}

ClaimRow percent_row(std::string id, std::string what, std::string paper, ClaimKind kind, double share, double low,
                     double high) {
  return row(std::move(id), std::move(what), std::move(paper), kind, 100 * share, low, high, "%");
}

ClaimRow told(ClaimRow out) {
  out.must_hold = false;
  return out;
}

ClaimRow noted(ClaimRow out, std::string note) {
  out.note = std::move(note);
  return out;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) {
    sum += v;
  }
  return sum / static_cast<double>(values.size());
}

std::size_t count_index(const GainTable& gains, int copies) {
  const auto found = std::find(gains.counts.begin(), gains.counts.end(), copies);
  EPSIM_CHECK(found != gains.counts.end(), "the count was estimated");
  return static_cast<std::size_t>(found - gains.counts.begin());
}

std::size_t layer_index(const SetupEvidence& setup, int number) {
  const auto found = std::find_if(setup.skew.begin(), setup.skew.end(),
                                  [&](const LayerPopularity& layer) { return layer.number == number; });
  EPSIM_CHECK(found != setup.skew.end(), "the model has that layer");
  return static_cast<std::size_t>(found - setup.skew.begin());
}

// C05, C06: counting.
Needs c05_needs(const CraftScope& scope) { return plans(scope, {"de8", "ke8"}, {"eplb", "cra8"}); }
Rows c05_rows(const CraftEvidence& evidence, const CraftScope&) {
  Rows out;
  for (const auto& [name, paper, expected] : {std::tuple{"de8", "7.25x", 58.0 / 8}, {"ke8", "7.5x", 60.0 / 8}}) {
    if (const auto found = evidence.find(name); found != evidence.end()) {
      const double copies = found->second.of("eplb").copies_per_gpu;
      out.push_back(row("C05", fmt::format("copies of EPLB over CRA8's, {}", name), paper, ClaimKind::kArithmetic,
                        copies / found->second.of("cra8").copies_per_gpu, expected, expected));
    }
  }
  return out;
}

Needs c06_needs(const CraftScope& scope) { return plans(scope, {"ke6", "ke8", "ke12"}, {"base"}); }
Rows c06_rows(const CraftEvidence& evidence, const CraftScope&) {
  Rows out;
  for (const auto& [name, nodes, expected] : {std::tuple{"ke6", 6, 8.0}, {"ke8", 8, 6.0}, {"ke12", 12, 4.0}}) {
    if (const auto found = evidence.find(name); found != evidence.end()) {
      out.push_back(row("C06", fmt::format("experts per GPU, Kimi-K2 on {} nodes", nodes), fmt::format("{}", expected),
                        ClaimKind::kArithmetic, static_cast<double>(found->second.experts) / found->second.gpus,
                        expected, expected));
    }
  }
  return out;
}

// C13 to C16: KV cache lost to copies.
Needs c13_needs(const CraftScope& scope) { return plans(scope, {"de8"}, {"eplb"}); }
Rows c13_rows(const CraftEvidence& evidence, const CraftScope&) {
  return {percent_row("C13", "KV cache lost to EPLB, D*8", "19 %", ClaimKind::kArithmetic,
                      evidence.at("de8").of("eplb").kv_lost, 17, 21)};
}
Needs c14_needs(const CraftScope& scope) { return plans(scope, {"ke12"}, {"eplb"}); }
Rows c14_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  if (scope.quick) {
    return {};
  }
  return {percent_row("C14", "KV cache lost to EPLB, K*12", "24 %", ClaimKind::kArithmetic,
                      evidence.at("ke12").of("eplb").kv_lost, 22, 26)};
}
Needs c15_needs(const CraftScope& scope) { return plans(scope, {"ke6"}, {"eplb"}); }
Rows c15_rows(const CraftEvidence& evidence, const CraftScope&) {
  return {noted(percent_row("C15", "KV cache lost to EPLB, K*6", "75 %", ClaimKind::kArithmetic,
                            evidence.at("ke6").of("eplb").kv_lost, 56, 80),
                "contradicts C16; the paper's own goodput (C17, C18) needs at least 56 %")};
}
Needs c16_needs(const CraftScope& scope) { return plans(scope, {"ke6"}, {"eplb", "cra8"}); }
Rows c16_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("ke6");
  const double ratio = setup.of("eplb").kv_lost / setup.of("cra8").kv_lost;
  return {noted(percent_row("C16", "KV cache lost to CRA8, K*6", "6 %", ClaimKind::kArithmetic,
                            setup.of("cra8").kv_lost, 7.5, 10.6),
                "copies have equal size, so EPLB's 75 % for 60 means 10 % for 8, not 6 %"),
          row("C16", "EPLB's loss over CRA8's, K*6", "7.5 by counting", ClaimKind::kArithmetic,
              std::round(ratio * 1e9) / 1e9, 7.5, 7.5)};
}

// C21, C22: where more copies stop helping.
Needs c21_needs(const CraftScope& scope) {
  Needs out;
  for (const std::string_view setup : scope.of(kEightNodes)) {
    out.push_back({setup, "base"});
  }
  return out;
}
Rows c21_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  double all = -1, skewed = -1;
  for (const std::string_view name : scope.of(kEightNodes)) {
    const SetupEvidence& setup = evidence.find(name)->second;
    const std::vector<double>&at16 = setup.gains.gain[count_index(setup.gains, 16)],
          &at32 = setup.gains.gain[count_index(setup.gains, 32)];
    std::vector<double> steps, skewed_steps;
    for (std::size_t l = 0; l < at16.size(); ++l) {
      steps.push_back(at32[l] - at16[l]);
      if (setup.skew[l].hottest > 10) {
        skewed_steps.push_back(steps.back());
      }
    }
    all = std::max(all, mean(steps));
    skewed = skewed_steps.empty() ? skewed : std::max(skewed, mean(skewed_steps));
  }
  const auto points = [](std::string what, double share) {
    return row("C21", std::move(what), "negligible", ClaimKind::kAlgorithm, 100 * share, -kUnbounded, 2, "points");
  };
  return {points("balancedness from 16 to 32 copies a layer, mean of all layers", all),
          noted(told(points("the same, layers above 10x alone", skewed)),
                "the paper's figure is a mean over all layers; it does not show these alone")};
}

Needs c22_needs(const CraftScope& scope) { return plans(scope, {"de8"}, {"base"}); }
Rows c22_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("de8");
  const auto knee_of_layer = [&](int number) {
    std::vector<int> x{0};
    std::vector<double> gain{0};
    for (std::size_t c = 0; c < setup.gains.counts.size(); ++c) {
      x.push_back(setup.gains.counts[c]);
      gain.push_back(setup.gains.gain[c][layer_index(setup, number)]);
    }
    return knee(x, gain);
  };
  const auto told_of = [&](int layer, const char* paper, double low, double high, const char* why) {
    return noted(told(row("C22", fmt::format("copies at the knee of layer {}, DE8", layer), paper,
                          ClaimKind::kAlgorithm, knee_of_layer(layer), low, high)),
                 why);
  };
  return {row("C22", "copies at the knee of layer 51, DE8", "16", ClaimKind::kAlgorithm, knee_of_layer(51), 8, 32),
          told_of(20, "0", 0, 4, "the paper does not give layer 20's loads beyond the hottest one's"),
          told_of(11, "1", 0.5, 2, "the paper does not give layer 11's loads"),
          told_of(12, "8", 4, 16, "the paper does not give layer 12's loads")};
}

// C23 to C26: the loads.
Needs c23_needs(const CraftScope& scope) { return c22_needs(scope); }
Rows c23_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("de8");
  return {row("C23", "hottest expert over the mean, layer 20", "~2.5x", ClaimKind::kInput,
              setup.skew[layer_index(setup, 20)].hottest, 2.25, 2.75)};
}
Rows c24_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("de8");
  const LayerPopularity& layer = setup.skew[layer_index(setup, 51)];
  return {
      row("C24", "hottest expert over the mean, layer 51", ">27x", ClaimKind::kInput, layer.hottest, 27, 30),
      percent_row("C24", "load of the two hottest, layer 51", "~20 %", ClaimKind::kInput, layer.top2_share, 19, 22)};
}
Rows c25_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("de8");
  const auto above = std::count_if(setup.skew.begin(), setup.skew.end(),
                                   [](const LayerPopularity& layer) { return layer.hottest > 10; });
  return {told(noted(row("C25", "layers above 10x, DE8", "a class", ClaimKind::kInput, static_cast<double>(above), 1,
                         setup.moe_layers),
                     "the paper names the class, not how many layers are in it"))};
}
Needs c26_needs(const CraftScope& scope) {
  return plans(scope, {"ke6", "kj6", "kl6", "ke12", "kj12", "kl12"}, {"base"});
}
// Mean gain of eight copies per GPU, dealt out by CRAFT.
double gain_of_eight(const SetupEvidence& setup) {
  const int budget = 8 * setup.gpus;
  return mean_gain(setup.gains, CraftKnapsack(setup.gains, budget, CraftObjective::kGain).solve(budget));
}
Rows c26_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  if (scope.quick) {
    return {};
  }
  double base = -1, gain = 1;
  for (const std::string_view dataset : kDatasets) {
    const SetupEvidence& six = evidence.find(fmt::format("{}6", dataset))->second;
    const SetupEvidence& twelve = evidence.find(fmt::format("{}12", dataset))->second;
    base = std::max(base, mean(twelve.gains.base) - mean(six.gains.base));
    gain = std::min(gain, gain_of_eight(twelve) - gain_of_eight(six));
  }
  const auto points = [](std::string what, double share, double low, double high) {
    return row("C26", std::move(what), "direction", ClaimKind::kAlgorithm, 100 * share, low, high, "points");
  };
  return {points("balancedness of BASE, 12 nodes less 6, largest of E, J, L", base, -kUnbounded, 0),
          points("gain of 8 copies per GPU, 12 nodes less 6, smallest", gain, 0, kUnbounded)};
}

// C29 to C32: the algorithm itself, and the protocol.
Needs c29_needs(const CraftScope& scope) { return plans(scope, {"de8", "ke8"}, {"base"}); }
Rows c29_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  double seconds = 0;
  for (const CraftNeed& need : c29_needs(scope)) {
    seconds = std::max(seconds, evidence.find(need.setup)->second.estimate_seconds);
  }
  return {noted(row("C29", "benefit estimation, 3000 batches", "~10 s", ClaimKind::kAlgorithm, seconds, 0, 10, "s"),
                "wall time of one thread, here and now: the one figure that differs from run to run")};
}

// The paper's Figure 10: 8 experts a layer, 4 GPUs in 2 nodes.
Needs c30_needs(const CraftScope&) { return {}; }
Rows c30_rows(const CraftEvidence&, const CraftScope&) {
  const std::vector<std::vector<double>> loads = {
      {6, 4, 1, 1, 1, 1, 1, 1}, {6, 4, 1, 1, 1, 1, 1, 1}, {5, 4, 2, 1, 1, 1, 1, 1}, {3, 3, 3, 3, 1, 1, 1, 1}};
  LoadWindow window(4, 8);
  for (int l = 0; l < 4; ++l) {
    std::copy(loads[static_cast<std::size_t>(l)].begin(), loads[static_cast<std::size_t>(l)].end(),
              window.layer(l).begin());
  }
  CraftOptions options;
  options.replication_factor = 2;
  CraftExplanation why;
  craft_plan(options, window, {.gpus = 4, .gpus_per_node = 2}, &why);
  double chosen = 0;
  for (const int copies : why.layer_copies) {
    chosen = chosen * 10 + copies;
  }
  return {row("C30", "copies of layers 1 to 4 in Figure 10", "2 2 4 0", ClaimKind::kAlgorithm, chosen, 2240, 2240,
              std::string(kDigits)),
          row("C30", "lowest balancedness of a layer there", "1", ClaimKind::kAlgorithm,
              *std::min_element(why.balancedness.begin(), why.balancedness.end()), 1, 1)};
}

Needs c31_needs(const CraftScope& scope) { return plans(scope, {"de8"}, {"base"}); }
Rows c31_rows(const CraftEvidence& evidence, const CraftScope&) {
  const SetupEvidence& setup = evidence.at("de8");
  const int budget = 8 * setup.gpus;
  std::vector<int> experts = CraftKnapsack(setup.gains, budget, CraftObjective::kGain).solve(budget);
  for (int& count : experts) {
    count += setup.experts;
  }
  const auto capacity = assign_capacities(experts, CraftLayout::global(setup.gpus), Interleave::kFloor);
  int spread = 0;
  std::vector<int> total(static_cast<std::size_t>(setup.gpus), 0);
  for (const std::vector<int>& layer : capacity) {
    const auto [least, most] = std::minmax_element(layer.begin(), layer.end());
    spread = std::max(spread, *most - *least);
    std::transform(layer.begin(), layer.end(), total.begin(), total.begin(), std::plus<>());
  }
  const auto [least, most] = std::minmax_element(total.begin(), total.end());
  return {
      row("C31", "candidate counts on 64 GPUs", "log2 D + 1 = 7", ClaimKind::kAlgorithm,
          static_cast<double>(setup.gains.counts.size()), 7, 7),
      row("C31", "slots of a layer, largest difference between GPUs", "at most 1", ClaimKind::kAlgorithm, spread, 0, 1),
      row("C31", "slots over all layers, difference between GPUs", "0", ClaimKind::kAlgorithm, *most - *least, 0, 0)};
}

Rows c32_rows(const CraftEvidence& evidence, const CraftScope&) {
  return {noted(row("C32", "profiling batches, apart from the run's", "3000", ClaimKind::kInput,
                    evidence.at("de8").batches, 3000, 3000),
                "plans and runs draw from separate streams of the same preset")};
}

constexpr CraftClaim kPlanClaims[] = {
    {"C05", "EPLB makes 7.25 and 7.5 times the copies of CRA8", c05_needs, c05_rows},
    {"C06", "Kimi-K2 has 8, 6 and 4 experts per GPU on 6, 8 and 12 nodes", c06_needs, c06_rows},
    {"C13", "EPLB takes 19 % of the KV cache on D*8", c13_needs, c13_rows},
    {"C14", "EPLB takes 24 % of the KV cache on K*12", c14_needs, c14_rows},
    {"C15", "EPLB takes 75 % of the KV cache on K*6", c15_needs, c15_rows},
    {"C16", "CRA8 takes 6 % of the KV cache on K*6", c16_needs, c16_rows},
    {"C21", "beyond 16 copies a layer, more add little balance", c21_needs, c21_rows},
    {"C22", "the gains of DE8's layer 51 end at 16 copies, those of layer 20 at none", c22_needs, c22_rows},
    {"C23", "layer 20's hottest expert takes 2.5 times the mean", c23_needs, c23_rows},
    {"C24", "layer 51's hottest expert takes over 27 times the mean, the top two 20 %", c22_needs, c24_rows},
    {"C25", "high-skew layers have an expert above 10 times the mean", c22_needs, c25_rows},
    {"C26", "on more nodes placement does less and replication more", c26_needs, c26_rows},
    {"C29", "estimating the benefits takes about 10 s", c29_needs, c29_rows},
    {"C30", "the worked example of Figure 10", c30_needs, c30_rows},
    {"C31", "candidate counts and capacities", c31_needs, c31_rows},
    {"C32", "3000 profiling batches, not used for evaluation", c31_needs, c32_rows},
};

}  // namespace

std::span<const CraftClaim> craft_plan_claims() { return kPlanClaims; }

}  // namespace epsim
