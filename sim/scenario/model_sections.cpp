#include "sim/scenario/model_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "models/catalogue/hf_config.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/scenario/expert_layout.h"
#include "sim/scenario/read_names.h"
#include "sim/scenario/root_keys.h"

namespace epsim {
namespace {

constexpr KeyTable kModelKeys({
    {"architecture", key::name_or_other([] { return entry_names(list_models()); }, "epsim list models"), key::kRequired,
     "A shipped model, or the path of a Hugging Face config.json."},
    {"dtype", key::one_of<WeightType>(),
     key::by("the model's: gpt-oss mxfp4, Kimi-K2.5 int4, a config.json's, else bf16"),
     "Data type of weights and products. fp4: FFNs and attention's output in nvfp4; mxfp4, int4: routed experts; else "
     "bf16."},
    {"kv_dtype", key::one_of<DataType>(),
     key::by(
         "the model's: fp8 where its checkpoint says so; of sparse attention on Blackwell fp8 with SGLang; else bf16"),
     "Data type of the KV cache."},
});

std::vector<std::string> within_a_rank() {
  return {std::string(name_of(Sharding::kTensorParallel)), std::string(name_of(Sharding::kReplicated))};
}

constexpr KeyTable kParallelismKeys({
    {"attention_tp", key::whole(Bound::kPositive), key::by("GPUs of a node"),
     "GPUs of one DP rank: tensor parallelism of attention. More than a node has: all of the instance."},
    {"ep_size", key::whole(Bound::kPositive), key::by("all GPUs"),
     "Expert-parallel ranks; the GPUs of a rank split each of its experts."},
    {"shared_experts", key::one_of(within_a_rank), key::is(Parallelism{}.shared_experts),
     "How a DP rank holds the shared experts."},
    {"dense_ffn", key::one_of<Sharding>(), key::by("tensor_parallel; SGLang with several DP ranks all_gpus"),
     "How a DP rank holds the dense layers; all_gpus: each GPU a part, of which all ranks' tokens are sent to it."},
    {"embedding", key::one_of(within_a_rank), key::is(Parallelism{}.embedding), "How a DP rank holds the embedding."},
    {"lm_head", key::one_of<Sharding>(),
     key::by("as embedding where that is given; else tensor_parallel, SGLang with several DP ranks all_gpus"),
     "How a DP rank holds the output head; all_gpus as with dense_ffn."},
});

constexpr KeyTable kMemoryKeys({
    {"static_fraction", key::number(kPositiveShare), key::by("the engine's, by GPU and layout"),
     "Share of GPU memory for weights, copies and KV cache; the engine's own knob may set it instead."},
    {"reserve", key::bytes(), key::is(Bytes(0)), "Memory of each GPU that is left free besides."},
    {"reserve_per_node", key::bytes(), key::is(Bytes(0)),
     "Memory of each GPU that is left free besides, once for every node of the instance: buffers that grow with it."},
    {"kv_block_tokens", key::whole(Bound::kPositive), key::by("the engine's"), "Tokens per KV block."},
    {"num_gpu_blocks", key::whole(Bound::kPositive), key::by("what the memory holds"),
     "KV blocks of a DP rank, instead of computing them from the memory."},
});

// A value that the engine's knob gives, or else the `memory` section; both is an error.
template <class T>
std::optional<T> knob_or_key(ConfigReader& in, const std::optional<T>& knob, const Key& key) {
  const std::optional<T> own = in.maybe<T>(key);
  in.check(!own || !knob, std::string(key.name), "the engine's own knob in `serving` sets this too; give one of them.");
  return own ? own : knob;
}

}  // namespace

std::span<const Key> model_keys() { return kModelKeys; }
std::span<const Key> parallelism_keys() { return kParallelismKeys; }
std::span<const Key> memory_keys() { return kMemoryKeys; }

void read_model(ConfigReader root, Scenario& s) {
  ConfigReader in = root.section(kRootKeys["model"]);
  const std::string architecture = name_or_path(in, kModelKeys["architecture"]);
  if (const auto beside = looks_like_path(architecture) ? hf_quantisation_beside(architecture) : std::nullopt) {
    in.note_file(*beside);
  }
  s.model = at_key(in, "architecture", [&] { return find_model(architecture); });
  const WeightType own = s.model.dtype;
  s.model.dtype = in.read<WeightType>(kModelKeys["dtype"], own, own == WeightType::kBf16 ? "" : s.model.source);
}

void read_kv_type(ConfigReader root, std::span<const EngineProfile* const> engines, Scenario& s) {
  ConfigReader in = root.section(kRootKeys["model"]);
  const bool all = std::ranges::none_of(engines, [](const EngineProfile* e) { return e->sparse_fp8_cache.empty(); });
  const std::string_view sparse_fp8 = all ? engines.front()->sparse_fp8_cache : std::string_view();
  DataType cache = s.model.bytes_per_kv == bytes_of(DataType::kFp8) ? DataType::kFp8 : DataType::kBf16;
  std::string source = cache == DataType::kBf16 ? "" : s.model.source;
  if (s.model.attention.indexer.heads > 0 && !sparse_fp8.empty() && s.cluster.node.gpu.fp4_peak.count() > 0) {
    cache = DataType::kFp8;
    source = sparse_fp8;
  }
  s.model.bytes_per_kv = bytes_of(in.read<DataType>(kModelKeys["kv_dtype"], cache, source));
}

bool turns_into_bf16(const EngineProfile& engine, const GpuSpec& gpu) {
  return !engine.mxfp4_by_ep.empty() && gpu.fp4_peak.count() <= 0;
}

void read_parallelism(ConfigReader root, Scenario& s) {
  ConfigReader in = root.section(kRootKeys["parallelism"]);
  Parallelism& p = s.parallelism;
  p.gpus = s.cluster.gpus();
  p.attention_tp = in.read<int>(kParallelismKeys["attention_tp"], s.cluster.node.gpus);
  p.shared_experts = in.read<Sharding>(kParallelismKeys["shared_experts"]);
  ConfigReader serving = root.section(kRootKeys["serving"]);
  const EngineProfile& engine = read_engine_profile(serving);
  const LayoutDefault layout = p.dp_ranks() > 1 ? engine.layout : LayoutDefault{};
  p.dense_ffn = in.read<Sharding>(kParallelismKeys["dense_ffn"], layout.dense_ffn, layout.dense_ffn_source);
  const bool stated = in.has("embedding");
  p.embedding = in.read<Sharding>(kParallelismKeys["embedding"]);
  p.lm_head = in.read<Sharding>(kParallelismKeys["lm_head"], stated ? p.embedding : layout.lm_head,
                                stated ? "parallelism.embedding" : layout.lm_head_source);
  read_ep_size(in, kParallelismKeys["ep_size"], 1, p);
  check_parallelism(in, p, s.model, s.cluster);
}

void read_memory(ConfigReader root, const EngineMemory& engine, Scenario& s) {
  ConfigReader in = root.section(kRootKeys["memory"]);
  MemoryOptions& m = s.memory;
  const std::optional<double> fraction = knob_or_key(in, engine.static_fraction, kMemoryKeys["static_fraction"]);
  m.static_fraction = fraction ? *fraction : in.read<double>(kMemoryKeys["static_fraction"]);
  m.account = engine.static_fraction ? engine.account : MemoryAccount::kPlain;
  in.check(m.static_fraction <= 1.0, "static_fraction", "a share of the memory is at most 1.");
  m.reserve = in.read<Bytes>(kMemoryKeys["reserve"]);
  m.profiled_peak = Bytes(engine.peak_per_word * s.model.vocab);
  m.window_share = engine.window_share;
  m.drafter = engine.drafter && s.serving.speculative.has_layer();
  m.reserve_per_node = in.read<Bytes>(kMemoryKeys["reserve_per_node"]);
  const bool mla = s.model.attention.kind == AttentionKind::kMla;
  const int blocks = mla ? engine.mla_block_tokens.value_or(engine.default_block_tokens) : engine.default_block_tokens;
  m.kv_block_tokens = knob_or_key(in, engine.kv_block_tokens, kMemoryKeys["kv_block_tokens"]).value_or(blocks);
  m.num_gpu_blocks = knob_or_key(in, engine.num_gpu_blocks, kMemoryKeys["num_gpu_blocks"]);
  check_chunk(root.section(kRootKeys["serving"]), engine, m.kv_block_tokens);
}

void check_chunk(const ConfigReader& serving, const EngineMemory& engine, int block_tokens) {
  serving.check(engine.chunk_tokens == 0 || engine.chunk_tokens >= block_tokens, "chunked_prefill_size",
                fmt::format("{} tokens of a DP rank are less than a KV block of {}; no prompt could start.",
                            engine.chunk_tokens, block_tokens));
}

}  // namespace epsim
