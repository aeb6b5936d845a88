// EPLB as engines run it: their arithmetic, hierarchical wherever the groups divide over the nodes, and (in the
// registry's table) their rule for choosing a copy.
#include "policies/presets/renamed.h"
#include "sim/core/config.h"

namespace epsim {

std::unique_ptr<PlacementPolicy> make_eplb_placement(ConfigReader& options);

namespace {

std::unique_ptr<PlacementPolicy> as_engine(const char* name, const char* variant, ConfigReader& options) {
  options.preset<std::string>("variant", variant);
  options.preset<std::string>("mode", "auto");
  return std::make_unique<RenamedPlacement>(name, make_eplb_placement(options));
}

}  // namespace

std::unique_ptr<PlacementPolicy> make_sglang_eplb(ConfigReader& options) {
  return as_engine("eplb_sglang", "sglang", options);
}
std::unique_ptr<PlacementPolicy> make_vllm_eplb(ConfigReader& options) {
  return as_engine("eplb_vllm", "vllm", options);
}

}  // namespace epsim
