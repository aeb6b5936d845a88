#include "models/step/eager_work.h"

#include <algorithm>
#include <array>

namespace epsim {
namespace {

// Kernels of a part of a layer; fp8 adds those that quantise its inputs.
struct Kernels {
  int bf16, fp8;
};

// Norm, QKV projection, rotary embedding, keys and values into the cache, split scores and their sum, output projection.
constexpr Kernels kGqa{8, 2};
// Norm, q_a with kv_a, two norms, q_b, absorbed keys, rotary embedding, two concatenations, cache, split scores and
// their sum, absorbed values, output projection.
constexpr Kernels kMla{14, 5};
constexpr int kTensorParallel = 2;  // all-gather and reduce-scatter around attention
constexpr Kernels kDense{4, 2};     // norm, gate with up, activation, down
constexpr int kRouter = 3;          // norm, scores, top-k
constexpr Kernels kShared{4, 2};    // gate with up, activation, down, sum
constexpr Kernels kExperts{6, 2};   // offsets, rows by expert, gate with up, activation, down, rows by token

// By Transport: of dispatch and combine together.
constexpr std::array<int, kTransportNames.size()> kExchange = {
    4,  // counts, rows by GPU, there, back
    2,  // all-gather, reduce-scatter
    5,  // layout, notify, dispatch; notify, combine
    2,  // dispatch, combine
    5,  // zeros, own rows, all-reduce; all-reduce, own rows
    3,  // all-gather; all-reduce, own rows
    4,  // own rows; all-reduce, own rows, all-reduce in the DP rank; two broadcasts for each DP rank besides
    2   // dispatch, combine
};

int exchange_kernels(Transport transport, const Parallelism& parallelism) {
  const int broadcasts = transport == Transport::kBroadcastAllReduce ? 2 * parallelism.dp_ranks() : 0;
  return kExchange[static_cast<std::size_t>(transport)] + broadcasts;
}

}  // namespace

Seconds EagerWork::host_wait(Seconds gpu, Seconds launch) const {
  return std::max(launch * waits, launch * launches - gpu);
}

EagerWork eager_work(const MoeSpec& model, const Parallelism& parallelism, const DispatchOptions& dispatch) {
  const auto of = [&](const Kernels& k) { return k.bf16 + (model.weight_bytes(WeightsOf::kFfn) < 2 ? k.fp8 : 0); };
  const Transport transport = dispatch.network.transport;
  const bool collectives = parallelism.attention_tp > 1 && transport != Transport::kAllReduce;
  const int attention =
      of(model.attention.kind == AttentionKind::kMla ? kMla : kGqa) + (collectives ? kTensorParallel : 0);
  const int moe = kRouter + (model.shared_intermediate > 0 ? of(kShared) : 0) + of(kExperts) +
                  exchange_kernels(transport, parallelism);
  const bool waits = dispatch.exchange_counts || transport == Transport::kDeepEpNormal;
  return {model.layers * attention + model.dense_layers() * of(kDense) + model.moe_layers() * moe,
          waits ? model.moe_layers() : 0};
}

}  // namespace epsim
