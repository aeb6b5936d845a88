// The serving engines whose scheduling the simulator follows.
//
// A scenario's `serving` section names an engine and sets its knobs; what is left out has the engine's default on that
// hardware. A knob of another engine is refused by name, an unknown one with the list of those that there are.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/config.h"
#include "sim/scheduler/engine_profile.h"
#include "sim/scheduler/scheduler.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// Every engine, for `list` and for error messages.
std::span<const EngineProfile> engine_profiles();
const EngineProfile& find_engine(std::string_view name);

// Names that stand for the newest profile of an engine.
struct EngineAlias {
  std::string_view name, engine;
};
inline constexpr EngineAlias kEngineAliases[] = {
    {"sglang", "sglang_0_5"}, {"vllm", "vllm_0_14"}, {"trtllm", "trtllm_1_x"}};

// Those of the section `serving`.
std::vector<SectionKeys> serving_keys();

// Reads the mapping `serving`. Leaves kv_blocks to the caller, and
// finish() too, since other readers may share the mapping. Throws InputError.
EngineSettings read_engine_settings(ConfigReader& in, const EngineSite& site);
// The engine that the mapping names, without the rest.
const EngineProfile& read_engine_profile(ConfigReader& in);
// The engine that it has unless it names one, in place of the usual default.
void default_engine(ConfigReader& in, const std::string& engine);

// The scheduler of a DP rank of the engine that the options name.
std::unique_ptr<Scheduler> make_scheduler(const ServingOptions& options, const RankContext& context);

}  // namespace epsim
