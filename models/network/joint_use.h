// What experts that serve the same tokens save of the rows that are sent once.
//
//   Models : a token needs none of some copies with chance miss^c, where miss takes its experts as independent
//            (MissProbability) and c is what a sample of tokens says of these copies: with the sample's loads, as many
//            tokens miss them as one counts. Experts that go together make c less than 1 where they lie together, and
//            group-limited routing makes it more where a group lies together. A routing model that draws a token's kind
//            needs no rows by kind of its own: c of tokens drawn from it is within the bar below.
//            Without a sample, c follows from the groups that the model's routing is limited to, if it is: a token opens a
//            group with a chance in proportion to its load, so many groups in all (conditional Poisson sampling), and
//            then uses its experts as MissProbability has it.
//   Ignores: that experts go together otherwise in some steps than in the sample.
//   Valid  : rows summed over GPUs, between nodes and inside: within 3 % on tokens that the sample does not have, of
//            another data set too (tests/policies/joint_use_test.cpp, joint_use_shared_test.cpp). Groups: rows between nodes
//            within 1 % of tokens drawn one by one, 3 % where a group has 2.5 times the load (tests/models/joint_use_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/node_shares.h"
#include "models/network/source_lanes.h"
#include "sim/domain/affinity.h"
#include "sim/domain/load_window.h"
#include "sim/domain/placement.h"

namespace epsim {

// Sets of copies of which a token needs some or none: those of each lane, then those of each list of a node.
struct CopySets {
  std::vector<std::size_t> first{0};      // [set + 1]
  std::vector<NodeShares::Entry> copies;  // set by set
  // Who has each expert. Copies of one expert in a set exclude each other: a token is computed by one of them.
  std::vector<std::size_t> first_of;  // [expert + 1] in `sets` and `shares`
  std::vector<std::size_t> sets;
  std::vector<double> shares;  // of the expert's tokens, that the set takes

  std::size_t size() const { return first.size() - 1; }
  std::span<const NodeShares::Entry> of(std::size_t s) const {
    return std::span(copies).subspan(first[s], first[s + 1] - first[s]);
  }
};
// `nodes`: null where rows are not sent once a node.
CopySets copy_sets(const LayerPlacement& layer, const SourceLanes& lanes, const NodeShares* nodes);

// What tells which experts serve the same tokens: some tokens, at least one; else the groups of consecutive experts of which
// a token uses a few, with the loads of a run [layer][expert] and the experts of a token.
struct UsedTogether {
  const TokenSample* tokens = nullptr;
  const LoadWindow* loads = nullptr;
  int top_k = 0, groups = 1, top_groups = 1;

  static constexpr int kMostGroups = 12;  // all choices of 6 of them are looked at: no model has more
  bool known() const { return tokens != nullptr || (loads != nullptr && top_groups < groups && groups <= kMostGroups); }
};

// c of each lane and of each list.
struct JointUse {
  std::vector<double> lanes, lists;
};
// Of MoE layer l, whose number in what tells it is too; `lanes` of the sets are lanes.
JointUse joint_use(const CopySets& sets, std::size_t lanes, const UsedTogether& together, int l);

// [GPU], [node] The c of a placement's copies there, as tokens from most sources see them; empty: experts are
// independent.
struct JointPowers {
  std::vector<double> gpus, nodes;
};

// Counts, for tokens [token][layer][k] of so many layers, the share of them that need some copy of each set.
class TokenCount {
 public:
  // `hits` [set].
  void count(const CopySets& sets, std::span<const std::uint16_t> experts, int layers, int top_k, int l,
             std::span<double> hits);

 private:
  std::vector<double> missed_, hits_;  // [set] of the token at hand; of all
  std::vector<std::size_t> seen_;      // sets that the token at hand may need, some more than once
};

}  // namespace epsim
