// The components of GRACE-MoE as its Sec. 5.3 and Figure 5 compare them, each under a name: what is grouped and copied
// is set here, which copy serves a token stands in the registry's table.
//   Readings: Vanilla ("average grouping") holds experts in order, as many on each GPU. FR has no routing of its own in
//             the paper: its two copies share evenly. Rows are counted as the scenario's `dispatch` says, for all
//             alike.
#include "policies/presets/renamed.h"
#include "sim/core/config.h"

namespace epsim {

std::unique_ptr<PlacementPolicy> make_contiguous_placement(ConfigReader& options);
std::unique_ptr<PlacementPolicy> make_grace_placement(ConfigReader& options);

namespace {

std::unique_ptr<PlacementPolicy> grouped(const char* name, const char* replication, ConfigReader& options) {
  options.preset<std::string>("replication", replication);
  return std::make_unique<RenamedPlacement>(name, make_grace_placement(options));
}

}  // namespace

std::unique_ptr<PlacementPolicy> make_grace_vanilla(ConfigReader& options) {
  return std::make_unique<RenamedPlacement>("grace_vanilla", make_contiguous_placement(options));
}
std::unique_ptr<PlacementPolicy> make_grace_hg(ConfigReader& options) { return grouped("grace_hg", "none", options); }
std::unique_ptr<PlacementPolicy> make_grace_hg_fr(ConfigReader& options) {
  return grouped("grace_hg_fr", "fixed", options);
}
std::unique_ptr<PlacementPolicy> make_grace_hg_dr_wrr(ConfigReader& options) {
  return grouped("grace_hg_dr_wrr", "dynamic", options);
}
std::unique_ptr<PlacementPolicy> make_grace_hg_dr_tar(ConfigReader& options) {
  return grouped("grace_hg_dr_tar", "dynamic", options);
}

}  // namespace epsim
