#include "models/network/varying_shares.h"

namespace epsim {

VaryingShares varying_shares(const LayerPlacement& layer) {
  VaryingShares out;
  if (layer.by_source.empty()) {
    return out;
  }
  const std::vector<float>& share = layer.by_source.share;
  const std::size_t slots = layer.expert.size(), sources = share.size() / slots;
  std::vector<std::int32_t> gpu_of;
  for (std::size_t g = 0; g + 1 < layer.first_slot.size(); ++g) {
    gpu_of.resize(static_cast<std::size_t>(layer.first_slot[g + 1]), static_cast<std::int32_t>(g));
  }
  out.gpus_per_source = layer.by_source.gpus_per_source;
  std::vector<bool> varies(slots, false);
  for (std::size_t i = slots; i < share.size(); ++i) {
    varies[i % slots] = varies[i % slots] || share[i] != share[i % slots];
  }
  for (std::size_t slot = 0; slot < slots; ++slot) {
    if (!varies[slot]) {
      out.common_slot.push_back(static_cast<std::int32_t>(slot));
      out.common_gpu.push_back(gpu_of[slot]);
    }
  }
  out.first_entry.push_back(0);
  for (std::size_t s = 0; s < sources; ++s) {
    for (std::size_t slot = 0; slot < slots; ++slot) {
      if (varies[slot] && share[s * slots + slot] > 0) {
        out.entries.push_back(
            {gpu_of[slot], layer.expert[slot], static_cast<std::int32_t>(slot), share[s * slots + slot]});
      }
    }
    out.first_entry.push_back(out.entries.size());
  }
  return out;
}

}  // namespace epsim
