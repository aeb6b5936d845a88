// A statistical model of MoE routing: what a workload's expert loads look like, part by part, small enough for a YAML
// file.
//
//   Models : per layer, the mean share of every expert (popularity). Around it, the logarithm of an expert's share
//            moves with latent topics: ln share = ln base + sigma(layer) * u(expert) . (domain + sequence + stretch),
//            where u are loadings on a few factors that all layers share. So experts that load on one factor are hot
//            together, also across layers; a sequence keeps its topic for as long as it lasts (bursts), a stretch of
//            its tokens for a while, and a domain over many sequences (drift, dataset shift). Single tokens are of a
//            few kinds that prefer experts of their own (affinity, token_kinds.h), and may repeat experts of the
//            token before. Group-limited routing picks groups first.
//   Ignores: position in the sequence, prompt against answer, rare experts' heavier tails (topics are normal).
//   Source : the parts and their sizes are fitted (fit.h) or stated; `source` and `assumed` say which.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

// One MoE layer. Popularity is either `shares`, expert by expert, or the sorted `curve`, dealt to experts so that the
// layer is as balanced on contiguous GPUs as `balanced` says.
struct LayerRouting {
  int number = 0;                // model layer number
  std::vector<double> shares;    // [expert] of the layer's assignments, sum 1; empty = use `curve`
  std::vector<double> curve;     // load over the mean at curve_ranks(), log-log between them
  std::vector<double> balanced;  // balancedness (mean / max) on kBalancedGpus; empty = hot experts lie at random
  double sigma = 0;              // deviation of ln(share) between sequences of one domain
  std::vector<float> loadings;   // fitted, [expert][fitted_factors], mean square norm 1; empty = all drawn

  bool operator==(const LayerRouting&) const = default;
};

inline constexpr std::size_t kMostFactors = 64;
inline constexpr int kBalancedGpus[] = {8, 16, 32, 64};

struct RoutingModel {
  std::string name, model;      // of this model; of the architecture
  std::string source, licence;  // where the fitted figures come from; "" = licence not stated
  std::string assumed;          // what is not fitted, and where it comes from instead
  int model_layers = 0;         // 0 = not known
  int experts = 0, top_k = 0;   // per MoE layer; per token
  int expert_groups = 1, top_groups = 1;
  // Of the experts of one group of the router, in how hot they are: 0, hot experts lie at random; towards 1, whole
  // groups are hot or cold. For layers that state a curve without `balanced`.
  double group_correlation = 0;
  std::uint64_t pattern_seed = 1;  // draws what the file does not state: loadings, which expert is how hot
  // Windows of a workload, recorded at different times, differ: deviation of ln(share) in each, expert by expert.
  double drift = 0;
  std::uint64_t window = 0;  // which of them, by a number that draws it; not in the file

  // Topics. Ratios are deviations relative to the layer's sigma.
  int factors = 8;          // drawn factors
  int fitted_factors = 0;   // before them
  double fitted_share = 0;  // of the loadings' variance
  double domain_ratio = 0, stretch_ratio = 0;
  double sequence_tokens = 1024;      // mean length of a sequence
  double sequence_log_sigma = 0;      // of its logarithm
  std::int64_t longest_sequence = 0;  // longer ones are cut; 0 = never
  int stretch_tokens = 64;            // length of a stretch
  int domain_sequences = 64;          // sequences of one domain
  int kinds = 0;                      // of tokens; 0 = all alike
  double kind_sigma = 3;              // deviation of ln(share) between kinds
  double kind_share = 0;              // of a token's choices that its kind decides on, the rest is chosen without it
  double kind_topics = 1;             // factor on sigma where single tokens are drawn, as kinds dilute topics
  double repeat = 0;                  // chance that a token keeps an expert of the one before it
  double overdispersion = 1;          // variance of a step's count over the binomial one, topics apart

  // How a serving step mixes topics.
  double topic_tokens = 1024;  // tokens of one sequence in one step of one rank: a prefill chunk's share; decode: 1
  double topic_steps = 1;      // steps until a rank's sequences have changed
  double domain_steps = 1000;  // steps until the domain has changed
  double common = 1;           // share of the domain's variance that all ranks have in common

  std::vector<LayerRouting> layers;

  bool operator==(const RoutingModel&) const = default;

  // Throws InputError naming `where` and the part that is missing or impossible.
  void validate(const std::string& where) const;
};

// Reads a model's YAML. Throws InputError on anything missing, unknown or impossible.
RoutingModel read_routing_model(ConfigReader in, const std::string& where);
RoutingModel read_routing_model(const std::filesystem::path& file);

// The YAML that reads back as the same model: shares to 7 digits, other numbers to 6, loadings to 3 decimals.
std::string to_yaml(const RoutingModel& model);

// Ranks (from 1) at which a curve over `experts` states its loads: powers of two, and the last; `cold`: before that those
// at 3/4 and 15/16 of the experts too (of 32 and more), without which the coldest half comes out too cold.
std::vector<int> curve_ranks(int experts, bool cold = false);
// Sorted shares, hottest first, that the curve stands for. The loads at the hottest two ranks are kept exactly; the
// others are scaled so that all sum to 1.
std::vector<double> shares_of_curve(const std::vector<double>& curve, int experts);
// Deals sorted shares, hottest first, to the experts of one of the model's layers. At random (pattern seed, layer);
// where the layer states `balanced`, experts of about the same rank exchanged then until contiguous placement on
// kBalancedGpus is as balanced, or 4000 exchanges have been tried. Else where groups correlate, by the order of sqrt(c) x (the group's normal) + sqrt(1 - c) x
// (the expert's): the sorted shares stay, and only who has them changes.
std::vector<double> deal_shares(const std::vector<double>& sorted, const RoutingModel& model,
                                const LayerRouting& layer);

}  // namespace epsim
