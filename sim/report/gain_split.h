// Whose gain is it: a policy's rate against experts in order, as a sum over what was switched on.
//
//   Rule : from the policy as it is, one thing after another is switched off and stays off: planning again, the KV room that
//          its copies take, its choice of the copy that serves, the copies themselves, placement. What the rate falls by
//          is that thing's part, so that the parts add up to the whole. Of a policy that acts in every step: the KV room of
//          its buffers, then all that it does.
//   Source of the variants: the labels of split_labels(); runs of other policies are left alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "sim/report/comparison.h"
#include "sim/report/estimate.h"

namespace epsim {

// Labels of a policy's variants, as gain_splits() looks for them.
std::string label_without_replanning(const std::string& policy);  // its first plan stays
std::string label_without_kv_cost(const std::string& policy);     // likewise, and its copies take no KV room
std::string label_with_even_choice(const std::string& policy);    // the first plan stays, copies share evenly
std::string label_of_copies_alone(const std::string& policy);     // all three
std::string label_of_dispatch_alone(const std::string& policy);   // of one that acts in every step: no KV room taken

// Whether a label is one of these: a verdict does not advise what no deployment can have.
bool is_gain_variant(const std::string& label);

struct RatesOf {
  std::string policy;
  std::vector<double> by_seed;  // requests/s
};

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

// For each policy that has a variant without KV cost, where `contiguous` and `base` were run too.
std::vector<GainSplit> gain_splits(std::span<const RatesOf> runs);
std::vector<GainSplit> gain_splits(const Comparison& runs);

// A table of all of them; empty for none. Each in a sentence; and as an array.
std::string gain_split_table(std::span<const GainSplit> splits);
std::vector<std::string> gain_split_sentences(std::span<const GainSplit> splits);
nlohmann::ordered_json gain_split_json(std::span<const GainSplit> splits);

}  // namespace epsim
