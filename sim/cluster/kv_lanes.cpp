#include "sim/cluster/kv_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/cluster/hardware_change.h"

namespace epsim {
namespace {

constexpr int kEnds = 2;  // of a transfer

}  // namespace

KvLanes::KvLanes(const InstancePool& pool, const LinkProfile& link, const MoeSpec& model, int receivers,
                 std::vector<Fault> faults)
    : cluster_(pool.cluster),
      link_(link),
      // The drafter's layer goes along (SGLang: disaggregation/prefill.py).
      per_token_((model.kv_bytes_per_token(receivers) +
                  (pool.memory.drafter ? model.mtp_layer().kv_bytes_per_token(receivers) : Bytes(0))) *
                 receivers),
      per_prompt_(model.kv_bytes_per_sequence(receivers) * receivers),
      faults_(std::move(faults)),
      attention_tp_(pool.parallelism.attention_tp) {
  const NodeSpec& node = cluster_.node;
  const int ranks_per_node = std::max(1, node.gpus / attention_tp_);
  per_node_ = std::min(ranks_per_node, node.nics);
  ranks_per_lane_ = (ranks_per_node + per_node_ - 1) / per_node_;
  // As many of its GPUs send as receive; of a rank over several nodes they may be on several.
  const double nodes = std::max(1.0, 1.0 * std::min(attention_tp_, receivers) / node.gpus);
  rate_ = node.node_rate() * nodes / static_cast<double>(per_node_);
  if (model.attention.kind == AttentionKind::kMla) {
    const double nics_of_gpu = std::max(1.0, static_cast<double>(node.nics) / node.gpus);
    sending_ = std::min(1.0, receivers * nics_of_gpu * per_node_ / node.nics);
  }
}

Bytes KvLanes::cache_of(std::int64_t prompts, std::int64_t tokens) const {
  return per_token_ * static_cast<double>(tokens) + per_prompt_ * static_cast<double>(prompts);
}

std::string KvLanes::stand_in() const {
  int fewest = std::numeric_limits<int>::max();
  for (const CollectiveCurve& curve : link_.curves) {
    fewest = curve.kind == CollectiveKind::kAllToAll ? std::min(fewest, curve.gpus) : fewest;
  }
  return fewest > kEnds ? fmt::format("the all-to-all over {} GPUs stands in at equal wire time", fewest) : "";
}

Seconds KvLanes::transfer_time(std::int64_t tokens, bool last, double share) const {
  return link_.time(CollectiveKind::kAllToAll, kEnds, cache_of(last ? 1 : 0, tokens) / (rate_ * sending_ * share)).time;
}

double KvLanes::share_left(int lane, Ticks now) const {
  if (faults_.empty()) {
    return 1.0;
  }
  const StepConditions at = conditions_at(faults_, now, cluster_);
  const auto gpus = static_cast<std::size_t>(ranks_per_lane_) * static_cast<std::size_t>(attention_tp_);
  double slowest = 1.0;
  for (std::size_t g = static_cast<std::size_t>(lane) * gpus; g < static_cast<std::size_t>(lane + 1) * gpus; ++g) {
    const auto of = [g](const std::vector<double>& speeds) { return g < speeds.size() ? speeds[g] : 1.0; };
    slowest = std::min(slowest, of(at.link_speed) * of(at.nic_speed));
  }
  return slowest;
}

}  // namespace epsim
