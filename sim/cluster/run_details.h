// What a run's plans, models and memory say of its instances, for the report.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "sim/cluster/kv_lanes.h"
#include "sim/cluster/prepare.h"
#include "sim/cluster/run_result.h"
#include "sim/cluster/served_model.h"

namespace epsim {

// An instance of a run, whose model has priced its steps.
struct ServedInstance {
  const PreparedInstance* prepared;
  std::unique_ptr<ServedModel> model;
  std::optional<KvLanes> lanes;  // of prefill and decode instances
};

// The memory item of experts beyond an even share on the fullest GPU: uneven homes where the plan has no copies.
std::string_view extra_experts_item(const PreparedInstance& run);

// Adds the details to what the event loop left, and checks that the models executed and sent what was asked of them.
// Per-GPU and per-link figures are those of all instances side by side. With several, links are named "i0.", "i1.", ...;
// prompts' keys and values show as links of their own, "i0.kv_lane3.out" and "i2.kv_lane0.in", which share the NICs.
void add_details(const Scenario& scenario, std::span<ServedInstance> instances, RunResult& result);

}  // namespace epsim
