// What stands in a comparison of policies besides those asked for: the lines that tell what load balancing, placement
// and copies each bring, and variants of a policy with some of what it does switched off.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario/scenario.h"

namespace epsim {

// "eplb:kv_free" is the policy eplb, varied. No variant plans again. Variants whose name ends in kv_free have as much
// KV room as without copies and buffers, which no deployment can have.
//   first_plan      : no other change
//   kv_free         : no other change but the room
//   even            : copies share evenly, whatever the policy's choice of copy
//   even_kv_free    : likewise
//   dispatch_kv_free: a policy that acts in every step, no other change but the room
//   home_kv_free    : such a policy's home, with nothing done in a step
struct PolicyVariant {
  std::string_view name;
  bool kv_free = false, even = false, home = false;
};

// The parts of a variant's label; nothing for a label that has no such ending.
std::optional<std::pair<std::string, PolicyVariant>> as_variant(const std::string& label);
PolicyChoice vary(PolicyChoice policy, const PolicyVariant& variant);

// Labels of the variants that split the gain of a policy into parts (sim/report/gain_split.h).
std::vector<std::string> split_variants(const PolicyChoice& policy);

// Of contiguous (experts in order: load balancing off) and base (placement alone, no copies) those not among `labels`.
std::vector<std::string> missing_references(const std::vector<std::string>& labels);

bool is_reference(const std::string& label);

// Labels of what no deployment can have: ceilings, and copies that take no KV room.
std::vector<std::string> out_of_reach(const std::vector<PolicyChoice>& policies);
// "contiguous and base added ..."; empty for none.
std::string note_on(const std::vector<std::string>& added);

struct References {
  std::vector<std::string> labels;
  std::string note;  // one line for the user on what was added, and what cannot be; empty: nothing
};
// The missing references that the scenario can be read with. None where a label has sections of its own: there is no
// system then that all have in common. Throws what `read` throws for `labels`.
using ReadLabels = std::function<Scenario(const std::vector<std::string>& labels)>;
References references_for(const ReadLabels& read, const std::vector<std::string>& labels);

}  // namespace epsim
