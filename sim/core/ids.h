// Strong ids: a GPU is not a node, an expert is not a layer. index() gives the position in a vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace epsim {

enum class GpuId : std::int32_t {};      // 0 .. GPUs of the expert-parallel group - 1, node by node
enum class NodeId : std::int32_t {};     // 0 .. nodes - 1
enum class RankId : std::int32_t {};     // attention data-parallel rank (DP rank)
enum class LayerId : std::int32_t {};    // position among the MoE layers, 0 = first MoE layer
enum class ExpertId : std::int32_t {};   // logical expert within a layer
enum class RequestId : std::int64_t {};  // position in the request trace

template <class Id>
constexpr std::size_t index(Id id) {
  return static_cast<std::size_t>(id);
}

}  // namespace epsim
