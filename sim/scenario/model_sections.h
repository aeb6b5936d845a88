// Reads the sections `model`, `parallelism` and `memory` of a scenario.
#pragma once

#include <span>

#include "sim/core/choice.h"
#include "sim/core/config.h"
#include "sim/scenario/scenario.h"
#include "sim/scheduler/engines.h"

namespace epsim {

// Of weights, keys and values, tokens on their way.
enum class DataType { kBf16, kFp8 };
template <>
inline constexpr auto kNames<DataType> = choice<DataType>({{"bf16", DataType::kBf16}, {"fp8", DataType::kFp8}});
constexpr double bytes_of(DataType type) { return type == DataType::kBf16 ? 2.0 : 1.0; }

template <>
inline constexpr auto kNames<Sharding> = choice<Sharding>({{"tensor_parallel", Sharding::kTensorParallel},
                                                           {"replicated", Sharding::kReplicated},
                                                           {"all_gpus", Sharding::kAllGpus}});

std::span<const Key> model_keys();
std::span<const Key> parallelism_keys();
std::span<const Key> memory_keys();

// Each fills its part of the scenario; read_parallelism() needs model and cluster. Throw InputError.
void read_model(ConfigReader root, Scenario& s);
// The type of the KV cache, whose default depends on model, GPU and the engines that serve.
void read_kv_type(ConfigReader root, std::span<const EngineProfile* const> engines, Scenario& s);
void read_parallelism(ConfigReader root, Scenario& s);
// Whether the engine turns mxfp4 experts of EP ranks into bf16 on this GPU.
bool turns_into_bf16(const EngineProfile& engine, const GpuSpec& gpu);
void read_memory(ConfigReader root, const EngineMemory& engine, Scenario& s);
// Throws InputError at `serving` where its chunks of prompts are shorter than a KV block.
void check_chunk(const ConfigReader& serving, const EngineMemory& engine, int block_tokens);

}  // namespace epsim
