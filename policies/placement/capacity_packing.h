// Greedy placement on GPUs that may hold different numbers of experts.
//   Source : CRAFT, Sec. 4.2.2 (the most loaded expert to the least loaded device, within each device's capacity).
//   Readings where the paper is silent: equally loaded GPUs are taken by smaller remaining room, then lower id, or by
//   lower id alone (GpuTies); copies of equal load in order of expert, then copy; two copies of an expert do not share
//   a GPU while another has room.
#pragma once

#include <span>

#include "sim/core/choice.h"
#include "sim/domain/placement_plan.h"

namespace epsim {

// Which of equally loaded GPUs takes the next copy. By less room first, CRAFT's Figure 10 comes out balanced; by lower
// id alone it does not.
enum class GpuTies { kLessRoom, kLowerId };
template <>
inline constexpr auto kNames<GpuTies> = choice<GpuTies>({{"less_room", GpuTies::kLessRoom},
                                                         {"lower_id", GpuTies::kLowerId}});

// One layer: copies of the hottest experts until the sum of `capacity` is reached (replicate_hottest in double), then
// all of them placed. capacity[g] = slots of GPU g; their sum must not be below the number of experts. Slots of a GPU
// are in order of arrival. Without `allow_duplicates` an expert has at most one copy per GPU as far as room allows.
LayerPlan place_by_capacity(std::span<const double> loads, std::span<const int> capacity, bool allow_duplicates,
                            GpuTies ties = GpuTies::kLessRoom);

}  // namespace epsim
