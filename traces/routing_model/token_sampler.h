// Expert ids of single tokens, drawn from a routing model.
//
//   Models : a token's experts win an exponential race with rates -ln(1 - pi) (draws one by one without replacement,
//            the first the strongest), so that expert e is in the choice with chance pi_e of the token's topic.
//            Group-limited routing: groups are drawn first, group g with chance q_g in proportion to its load, then
//            experts of those groups with chance pi_e / q_g. A token keeps each expert of the one before it with chance
//            `repeat`.
//   Valid  : chances are met within about 2 % for top-k of 4 and more.
//   Cost   : 25 to 40 ns per id (tests/bench/trace_model.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/format/trace.h"
#include "traces/routing_model/alias_table.h"
#include "traces/routing_model/routing_law.h"
#include "traces/routing_model/token_kinds.h"

namespace epsim {

// Sequence s depends on the seed and s alone, whatever is sampled before it. Keeps scratch space: one per thread.
class TokenSampler {
 public:
  TokenSampler(const RoutingLaw& law, Seed seed);

  // Tokens of a sequence: lognormal as the model states, at least 1.
  std::int64_t length(std::int64_t sequence) const;
  // The first `tokens` tokens of a sequence into `out`, [token][layer][k].
  void sample(std::int64_t sequence, std::int64_t tokens, std::span<std::uint16_t> out);

 private:
  // Experts of one group that nearly every token takes: drawn apart, as they would come again and again.
  static constexpr std::size_t kMostHeavies = 4;
  struct Heavies {
    std::size_t count = 0;
    std::array<float, kMostHeavies> weight{};
    std::array<std::uint16_t, kMostHeavies> expert{};
  };
  // What is left to draw from by a token: the weight of light experts (taken ones among them) and of heavy ones.
  struct Race {
    float light = 0, heavy = 0;
    std::size_t heavies = 0;
  };

  void set_topic(std::int64_t sequence, std::int64_t stretch);
  void set_chances(int layer);
  void set_groups();
  void draw_layer(RandomStream& random, int layer, std::int64_t tokens, std::span<const std::uint16_t> before,
                  std::span<std::uint16_t> out);
  void draw_groups(RandomStream& random);
  int keep(RandomStream& random, const std::uint16_t* before, std::uint16_t* to);
  void fill(RandomStream& random, std::span<const AliasCell> table, std::size_t have, std::uint16_t* to);
  static Heavies take_heavies(std::span<float> weights, std::uint16_t first, float least);
  Race gather_race(std::size_t kind);
  std::uint16_t take_heavy(Race& race, float u);
  void fill_from_groups(RandomStream& random, std::size_t kind, std::size_t have, std::uint16_t* to);

  RoutingLaw law_;  // that of the model, sigma times kind_topics
  Seed seed_;
  Topic topic_;
  std::vector<float> padded_chances_, chances_, rates_;
  std::vector<RandomStream> streams_;  // [layer], of the current sequence
  std::vector<std::uint32_t> taken_;   // [expert] number of the last choice that took it
  std::uint32_t choice_ = 0;
  std::vector<float> group_chance_;  // [group]
  std::vector<int> group_order_;
  std::vector<std::uint16_t> open_;      // groups of the token at hand
  std::vector<float> open_sums_;         // inclusive sums of their weights
  std::vector<std::uint16_t> group_of_;  // [expert]
  std::size_t group_size_;               // experts of each
  TokenKinds kinds_;
  std::vector<float> weights_;  // scratch
  std::size_t kinds_count_;     // one when tokens are all alike
  AliasBuilder builder_;
  std::vector<AliasCell> cells_;     // [kind][expert] a table for every group, of the current topic
  std::vector<float> light_sums_;    // [kind][group]
  std::vector<Heavies> heavies_;     // [kind][group]; with groups only
  std::vector<float> heavy_weight_;  // of the token at hand, those still in the race
  std::vector<std::uint16_t> heavy_expert_;
  std::vector<std::size_t> kind_of_;  // [token of the stretch]
};

// Whole sequences from `first_sequence` on, the last one cut, until there are `tokens`; with begin() and the table
// `sequences` (sequence, first_row, num_tokens, domain).
struct TokenPlan {
  std::int64_t first_sequence = 0, tokens = 0;
};
void generate_tokens(const RoutingLaw& law, const TokenPlan& plan, Seed seed, TraceSink& sink);

}  // namespace epsim
