// Expert ids of single tokens, drawn from a routing model.
//
//   Models : a token's experts win an exponential race with rates -ln(1 - pi) (draws one by one without replacement,
//            the first the strongest), so that expert e is in the choice with chance pi_e of the token's topic.
//            Group-limited routing: groups are drawn first, group g with chance q_g in proportion to its load, then
//            experts of those groups with chance pi_e / q_g. A token keeps each expert of the one before it with chance
//            `repeat`.
//   Valid  : chances are met within about 2 % for top-k of 4 and more.
//   Cost   : about 25 ns per id, twice that where routing is limited to groups (tests/bench/trace_model.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/model/alias_table.h"
#include "traces/model/routing_law.h"
#include "traces/model/token_kinds.h"
#include "traces/trace.h"

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
  struct Groups;
  void set_topic(std::int64_t sequence, std::int64_t stretch);
  void set_chances(int layer);
  void set_groups();
  void draw_layer(RandomStream& random, int layer, std::int64_t tokens, std::span<const std::uint16_t> before,
                  std::span<std::uint16_t> out);
  void draw_groups(RandomStream& random);
  int keep(RandomStream& random, const std::uint16_t* before, std::uint16_t* to);
  void fill(RandomStream& random, const AliasTable& table, std::size_t have, std::uint16_t* to);
  void fill_from_groups(RandomStream& random, const AliasTable* tables, std::size_t have, std::uint16_t* to);

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
  TokenKinds kinds_;
  std::vector<float> weights_;        // scratch
  std::vector<AliasTable> tables_;    // [kind][group] of the current topic; one kind when tokens are all alike
  std::vector<std::size_t> kind_of_;  // [token of the stretch]
};

// Whole sequences from `first_sequence` on, the last one cut, until there are `tokens`; with begin() and the table
// `sequences` (id, tokens, domain).
struct TokenPlan {
  std::int64_t first_sequence = 0, tokens = 0;
};
void generate_tokens(const RoutingLaw& law, const TokenPlan& plan, Seed seed, TraceSink& sink);

}  // namespace epsim
