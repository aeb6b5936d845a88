// The setups of CRAFT's evaluation: experiments/craft/*.yaml, which the program carries.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace epsim {

struct CraftSetup {
  std::string_view name;  // ke8: Kimi-K2, workload E, 8 nodes
  bool kimi() const { return name.front() == 'k'; }
  bool high_skew() const { return name[1] == 'e' || name[1] == 'j'; }  // the paper's classes of workloads (Sec. 5.2)
  int nodes() const { return name.substr(2) == "12" ? 12 : name[2] - '0'; }
};
std::span<const CraftSetup> craft_setups();
// The one of that name, which must be there.
const CraftSetup& craft_setup(std::string_view name);

// How GPU memory is divided between weights with KV cache and everything else.
enum class CraftMemory {
  kOneRule,  // 59.8 GiB less 1.26 GiB per node, for all setups
  kPaper,  // a fraction for each setup, from the KV losses that the paper states; 8 nodes of Kimi-K2 take DeepSeek-R1's
};
inline constexpr std::string_view kCraftMemoryNames[] = {"one_rule", "paper"};

// The scenario of a setup with overrides ("key=value") on top. Throws InputError.
Scenario craft_scenario(const CraftSetup& setup, CraftMemory memory, const std::vector<std::string>& overrides,
                        const std::vector<std::string>& policies);

}  // namespace epsim
