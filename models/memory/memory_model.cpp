#include "models/memory/memory_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

void validate(const MemoryOptions& options) {
  const auto need = [](bool holds, const std::string& key, const std::string& what) {
    refuse_if(!holds, "memory." + key, what);
  };
  need(options.static_fraction > 0 && options.static_fraction <= 1, "static_fraction",
       fmt::format("is {}, which must be in (0, 1].", options.static_fraction));
  need(options.reserve.count() >= 0, "reserve", "must not be negative.");
  need(options.reserve_per_node.count() >= 0, "reserve_per_node", "must not be negative.");
  need(options.resident_extra.count() >= 0, "resident_extra", "must not be negative.");
  need(options.kv_block_tokens >= 1, "kv_block_tokens", "must be at least 1.");
  need(!options.num_gpu_blocks || *options.num_gpu_blocks >= 1, "num_gpu_blocks", "must be at least 1.");
}

constexpr double kScaleShare = 4.0 / (128.0 * 128.0);  // bytes of scales a byte of fp8 weights

Bytes engine_extra(const MoeSpec& model, const Parallelism& parallelism) {
  Bytes out{};
  if (const AttentionSpec& a = model.attention; a.kind == AttentionKind::kMla) {
    const double columns =
        static_cast<double>(a.heads) / parallelism.attention_tp * (a.qk_nope_head_dim + a.v_head_dim);
    out += Bytes(2.0 * a.kv_lora_rank * columns * model.layers);
  }
  if (model.dtype == WeightType::kFp8) {  // the others' scales are in bytes_of()
    const WeightBytes w = weights_per_gpu(model, parallelism);
    const double experts = static_cast<double>(model.experts) * model.moe_layers() / parallelism.ep_size();
    out += (w.attention_replicated + w.attention_split + w.shared_experts + w.dense_ffn +
            parallelism.one_gpu_of(model).expert_bytes() * experts) *
           kScaleShare;
  }
  return out;
}

// What drafts beside the model: a layer, and the projection of a hidden state and an embedding onto its input.
Bytes drafter_weights(const MoeSpec& model, const Parallelism& parallelism) {
  const MoeSpec layer = model.mtp_layer();
  const WeightBytes w = weights_per_gpu(layer, parallelism);
  const double experts = static_cast<double>(layer.experts) * layer.moe_layers() / parallelism.ep_size();
  const Bytes input(2.0 * model.hidden * model.hidden * model.weight_bytes(WeightsOf::kUnquantised));
  return w.without_experts() - w.embedding + parallelism.one_gpu_of(layer).expert_bytes() * experts + input;
}

Bytes token_bytes(const MoeSpec& model, int tensor_parallel, const MemoryOptions& options) {
  const Bytes windows =
      model.layer_kv_bytes(tensor_parallel) * (options.window_share * model.layers_of(AttentionReach::kSliding));
  const Bytes drafter = options.drafter ? model.mtp_layer().kv_bytes_per_token(tensor_parallel) : Bytes(0);
  return model.kv_bytes_per_token(tensor_parallel) + windows + drafter;
}

Bytes reserves_of(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                  const MemoryOptions& options) {
  const Bytes stated = options.reserve + options.reserve_per_node * cluster.nodes + options.resident_extra +
                       (options.drafter ? drafter_weights(model, parallelism) : Bytes(0));
  return options.account == MemoryAccount::kPlain ? stated
                                                  : stated + engine_extra(model, parallelism) + options.profiled_peak;
}

Bytes static_pool(const ClusterSpec& cluster, const MemoryOptions& options) {
  const Bytes usable = cluster.node.gpu.memory;
  switch (options.account) {
    case MemoryAccount::kSglang:
      return (usable - kGoneBeforeLoad) * options.static_fraction;
    case MemoryAccount::kVllm:
      return usable * options.static_fraction - kGoneBeforeLoad;
    case MemoryAccount::kTrtllm:
      return usable - kGoneBeforeLoad;
    case MemoryAccount::kPlain:
      break;
  }
  return usable * options.static_fraction;
}

// What is left for routed experts and KV cache, without the check that it is enough.
Bytes room_for_experts(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                       const MemoryOptions& options) {
  return static_pool(cluster, options) - reserves_of(model, cluster, parallelism, options) -
         weights_per_gpu(model, parallelism).without_experts();
}

class Breakdown {
 public:
  Breakdown(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
            const MemoryOptions& options, std::span<const std::int64_t> resident)
      : parallelism_(parallelism),
        options_(options),
        resident_(resident),
        block_(token_bytes(model, parallelism.attention_tp, options) * options.kv_block_tokens),
        room_(room_for_experts(model, cluster, parallelism, options)),
        kv_share_(options.account == MemoryAccount::kTrtllm ? options.static_fraction : 1) {
    out_.usable = cluster.node.gpu.memory;
    out_.static_pool = static_pool(cluster, options);
    out_.reserves = reserves_of(model, cluster, parallelism, options);
    out_.weights = weights_per_gpu(model, parallelism);
    out_.expert = parallelism.one_gpu_of(model).expert_bytes();
    out_.experts_base = out_.expert * (static_cast<double>(model.experts) * model.moe_layers() / parallelism.ep_size());
    out_.kv_per_token = token_bytes(model, parallelism.attention_tp, options);
    out_.kv_per_sequence = model.kv_bytes_per_sequence(parallelism.attention_tp, options.window_share == 0);
  }

  MemoryBreakdown build() {
    for (int r = 0; r < parallelism_.dp_ranks(); ++r) {
      const int tightest = most_resident(r * parallelism_.attention_tp, parallelism_.attention_tp);
      out_.ranks.push_back(kv_of(tightest));
    }
    out_.tightest_gpu = most_resident(0, parallelism_.gpus);
    out_.expert_copies = experts_on(out_.tightest_gpu) - out_.experts_base;
    out_.kv_pool = out_.ranks[parallelism_.rank_of(out_.tightest_gpu)].pool;
    out_.kv_pool_without_extras =
        options_.num_gpu_blocks ? out_.kv_pool : (room_ + options_.resident_extra - out_.experts_base) * kv_share_;
    out_.extras_loss = 1.0 - out_.kv_pool / out_.kv_pool_without_extras;
    return out_;
  }

 private:
  Bytes experts_on(int gpu) const { return out_.expert * static_cast<double>(resident_[gpu]); }

  bool copies() const { return out_.expert > Bytes(0); }  // of experts, which a dense model has not

  int most_resident(int first, int count) const {
    const auto begin = resident_.begin() + first;
    return static_cast<int>(std::max_element(begin, begin + count) - resident_.begin());
  }

  RankKv kv_of(int gpu) const {
    const Bytes taken = out_.reserves + out_.weights.without_experts() + experts_on(gpu);
    if (options_.num_gpu_blocks) {
      // The user's count replaces the static pool; only the GPU itself is the limit.
      const Bytes pool = block_ * static_cast<double>(*options_.num_gpu_blocks);
      if (taken + pool > out_.usable) {
        throw DoesNotFit(gpu, taken + pool, out_.usable,
                         fmt::format("its weights, reserves and {} KV blocks", *options_.num_gpu_blocks), copies());
      }
      return {gpu, pool, *options_.num_gpu_blocks * options_.kv_block_tokens, *options_.num_gpu_blocks};
    }
    if (taken > out_.static_pool) {
      throw DoesNotFit(gpu, taken, out_.static_pool, "its weights and reserves in the static pool", copies());
    }
    const Bytes pool = (room_ - experts_on(gpu)) * kv_share_;
    if (pool < block_) {
      throw DoesNotFit(gpu, taken + block_, out_.static_pool, "one KV block after its weights and reserves", copies());
    }
    const auto blocks = static_cast<std::int64_t>(std::floor(pool / block_));
    return {gpu, pool, blocks * options_.kv_block_tokens, blocks};
  }

  const Parallelism& parallelism_;
  const MemoryOptions& options_;
  std::span<const std::int64_t> resident_;
  Bytes block_, room_;
  double kv_share_;  // of what is left
  MemoryBreakdown out_;
};

}  // namespace

std::optional<double> static_fraction_for(Bytes more, const ClusterSpec& cluster, const MemoryOptions& options) {
  MemoryOptions all = options;
  all.static_fraction = 1;
  const Bytes gain = static_pool(cluster, all) - static_pool(cluster, options);
  if (options.num_gpu_blocks || more > gain) {
    return std::nullopt;
  }
  return options.static_fraction + (1 - options.static_fraction) * (more / gain);
}

WeightBytes weights_per_gpu(const MoeSpec& model, const Parallelism& parallelism) {
  const double tp = parallelism.attention_tp;
  const auto share = [&](Sharding sharding) { return 1.0 / parallelism.ways(sharding); };
  WeightBytes out;
  const int linear = model.layers_of(AttentionReach::kLinear), softmax = model.layers - linear;
  out.attention_replicated = model.attention_replicated_bytes() * softmax;
  out.attention_split =
      model.attention_split_bytes(parallelism.attention_tp) * softmax + model.linear_attention_bytes() * (linear / tp);
  out.shared_experts = model.shared_expert_bytes() * (model.moe_layers() * share(parallelism.shared_experts));
  out.dense_ffn = model.dense_ffn_bytes() * (model.dense_layers() * share(parallelism.dense_ffn));
  out.router = model.router_bytes() * model.moe_layers();
  const double head = model.tied_embeddings ? 0.0 : 0.5;  // of embedding_bytes()
  out.embedding =
      model.embedding_bytes() * ((1 - head) * share(parallelism.embedding) + head * share(parallelism.lm_head));
  return out;
}

Bytes expert_memory(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                    const MemoryOptions& options) {
  validate(options);
  const Bytes room = room_for_experts(model, cluster, parallelism, options);
  if (room < Bytes(0)) {
    const Bytes pool = static_pool(cluster, options);
    throw DoesNotFit(0, pool - room, pool,
                     model.dense() ? "its reserves and the weights in the static pool"
                                   : "its reserves and the weights besides routed experts in the static pool",
                     false);
  }
  return room;
}

MemoryBreakdown memory_breakdown(const MoeSpec& model, const ClusterSpec& cluster, const Parallelism& parallelism,
                                 const MemoryOptions& options, std::span<const std::int64_t> resident) {
  validate(options);
  EPSIM_CHECK(static_cast<int>(resident.size()) == parallelism.gpus, "one count of resident experts per GPU");
  return Breakdown(model, cluster, parallelism, options, resident).build();
}

}  // namespace epsim
