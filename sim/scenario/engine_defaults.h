// What the engines choose by network where the user does not, and what they would say of a scenario.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "models/step/layer_costs.h"
#include "sim/domain/cluster_spec.h"
#include "sim/scheduler/engine_profile.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

struct InstancePool;
struct PolicyChoice;
struct Scenario;

// What the engine's defaults depend on.
EngineSite site_of(const ClusterSpec& cluster, const MoeSpec& model, int dp_ranks, const DispatchOptions& dispatch,
                   bool fraction_stated, InstanceRole role = InstanceRole::kWhole);

// dispatch.transport of an instance with this role. DeepEP wherever its kernels were measured on the cluster's links,
// as those are the links that it runs on. A dense model's GPUs add attention's and the FFN's parts up.
EngineDefault<std::string> default_transport(std::string_view engine, const MoeSpec& model, const ClusterSpec& cluster,
                                             const NetworkProfile& links, int dp_ranks, InstanceRole role);

// CUDA graphs need messages of a fixed size.
bool can_capture(const DispatchOptions& dispatch);

// Rows that DeepEP's low-latency kernels have to take from a GPU where a DP rank decodes so many, if that is more than
// the engine lets them by itself; else 0.
inline constexpr std::int64_t kMostLowLatencyRows = 1024;  // SGLang: token_dispatcher/deepep.py
std::int64_t low_latency_rows(const InstancePool& pool, std::int64_t decodes);
std::string low_latency_words(const InstancePool& pool, std::int64_t decodes);

// What the engine's releases do wrong with experts that are moved or copied in such a pool; else empty.
std::string_view moved_experts_warning(const InstancePool& pool);

// Settings that the engine would refuse or change, each with the reason.
std::vector<std::string> engine_warnings(const Scenario& scenario);

// That policies plan from what the run is scored on, where they do; else empty.
std::string planning_warning(const Scenario& scenario);

// Why a policy that leaves small steps alone never acts on the pool's instances, as far as is known ahead: their largest
// steps are too small. Empty where they are not, and for other policies.
std::string never_acts(const Scenario& scenario, const InstancePool& pool, const PolicyChoice& policy);
// The same of the policy on all pools that prefill; and a rebalance that is not the engine's own.
std::vector<std::string> policy_warnings(const Scenario& scenario, const PolicyChoice& policy);
// All of these, of the scenario, its systems and its policies, each once.
std::vector<std::string> all_warnings(const Scenario& scenario);

}  // namespace epsim
