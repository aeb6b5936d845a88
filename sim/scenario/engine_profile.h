// The serving engines whose scheduling the simulator follows, with the names that their knobs have there.
//
// A scenario's `serving` section names an engine and sets its knobs; what is left out has the engine's default on that
// hardware (engine_defaults.h). Budgets that are given hold for one DP rank (`budgets: divided_by_dp` divides them, as
// SGLang does with DP attention).
// A knob of another engine is refused by name, an unknown one with the list of those that there are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/memory/memory_model.h"
#include "sim/core/config.h"
#include "sim/scenario/engine_defaults.h"
#include "sim/scenario/serving_options.h"

namespace epsim {

struct EngineProfile {
  std::string_view name, summary;
  SchedulerLoop loop;
  GraphSize graph_size;
  std::span<const std::string_view> knobs;  // as the engine calls them
  bool partial_ep = false;                  // experts over a part of the GPUs: ep_size may be any divisor
};

// Every engine, for `list` and for error messages.
std::span<const EngineProfile> engine_profiles();

// Names that stand for the newest profile of an engine.
struct EngineAlias {
  std::string_view name, engine;
};
inline constexpr EngineAlias kEngineAliases[] = {{"sglang", "sglang_0_4_10"}, {"vllm", "vllm_v1"}};

// KV memory where the engine's knobs say something of it; the scenario's `memory` section says the rest.
struct EngineMemory {
  MemoryAccount account = MemoryAccount::kPlain;  // that static_fraction is meant in
  std::optional<double> static_fraction;
  std::string static_fraction_key;
  std::optional<int> kv_block_tokens;
  int default_block_tokens = 1;
  std::optional<std::int64_t> num_gpu_blocks;
};

struct EngineSettings {
  ServingOptions serving;
  EngineMemory memory;
};

// Reads the mapping `serving`; `engine` is that of a mapping that names none. Leaves kv_blocks to the caller, and
// finish() too, since other readers may share the mapping. Throws InputError.
EngineSettings read_engine_settings(ConfigReader& in, const EngineSite& site,
                                    const std::string& engine = ServingOptions{}.engine);
// The engine that the mapping names, without the rest.
const EngineProfile& read_engine_profile(ConfigReader& in, const std::string& engine = ServingOptions{}.engine);

}  // namespace epsim
