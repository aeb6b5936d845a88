// Whose gain is it: a policy's rate against experts in order, as a sum over what was switched on.
//
//   Rule : from the policy as it is, one thing after another is switched off and stays off: planning again, the KV room
//          that its copies take, its choice of the copy that serves, the copies themselves, placement. What the rate
//          falls by is that thing's part, so that the parts add up to the whole. Of a policy that acts in every step:
//          the KV room of copies and buffers, then what it does in a step, then the copies and the placement of its
//          home.
//   Source of the variants: split_variants() (sim/scenario/compared_policies.h); runs of other policies are left alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/report/comparison.h"
#include "sim/report/rate_verdict.h"

namespace epsim {

// Whether a label is a variant's: a verdict does not advise what no deployment can have.
bool is_gain_variant(const std::string& label);

struct GainPart {
  std::string name;
  Estimate requests_per_s, share;  // of the rate with experts in order
};
struct GainSplit {
  std::string policy;
  std::vector<GainPart> parts;  // in the order in which they were switched off
  GainPart whole;
  GainPart
      interaction;  // of choice and KV room: by how much each depends on the other; without a name where there is none
};

// For each policy that has a variant without KV cost, where `contiguous` and, but for policies that act in every step
// from there, `base` were run too.
std::vector<GainSplit> gain_splits(std::span<const RateChoice> runs);
std::vector<GainSplit> gain_splits(const Comparison& runs);
std::vector<RateChoice> rates_of(const Comparison& runs);

// A table of all of them, empty for none; and as an array.
std::string gain_split_table(std::span<const GainSplit> splits);
// A sentence for each; of runs without variants one on placement alone and on what each policy brings beyond it, unless
// contiguous or base was not run or nothing gains or loses more than 1 %. `intervals`: false for rates of a search, whose
// brackets the spread over seeds does not hold; its table does.
std::vector<std::string> gain_sentences(std::span<const RateChoice> runs, bool intervals = true);
nlohmann::ordered_json gain_split_json(std::span<const GainSplit> splits);

}  // namespace epsim
