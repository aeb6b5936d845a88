// What experts that serve the same tokens save of the rows that are sent once.
//
//   Models : a token needs none of some copies with chance miss^c, where miss takes its experts as independent
//            (MissProbability) and c is what a sample of tokens says of these copies: with the sample's loads, as many
//            tokens miss them as one counts. Experts that go together make c less than 1 where they lie together, and
//            group-limited routing makes it more where a group lies together.
//   Ignores: that experts go together otherwise in some steps than in the sample.
//   Valid  : rows summed over GPUs, between nodes and inside: within 3 % on tokens that the sample does not have, of
//            another data set too (tests/policies/joint_use_test.cpp, joint_use_shared_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/node_shares.h"
#include "models/network/source_lanes.h"
#include "sim/domain/affinity.h"
#include "sim/domain/placement.h"

namespace epsim {

// c of each lane and of each list of experts of a node.
struct JointUse {
  std::vector<double> lanes, lists;
};

// Of MoE layer l, whose number in `tokens` it is too.
JointUse joint_use(const LayerPlacement& layer, const SourceLanes& lanes, const NodeShares* nodes,
                   const TokenSample& tokens, int l);

}  // namespace epsim
