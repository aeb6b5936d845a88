// Who sends how many rows to whom when the experts of every token are known: the exact counterpart of TrafficModel.
//   Models : each token's experts as they are, so experts that serve the same tokens share rows as they really would.
//            Where copies share an expert's tokens, rows are expected values over independent choices.
//   Ignores: routing metadata, as TrafficModel does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/traffic.h"

namespace epsim {

// Counts the rows of MoE layer `l` for tokens that lie on token_gpu[t] and use experts ids[t * top_k .. + top_k - 1].
// Fills `out`, which it sizes. Id: std::uint8_t or std::uint16_t.
template <class Id>
void count_token_traffic(const Placement& placement, int l, const ClusterShape& shape, Dedup dedup,
                         std::span<const Id> ids, std::span<const std::int32_t> token_gpu, LayerTraffic& out);

}  // namespace epsim
