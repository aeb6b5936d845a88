#include "sim/verbs/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "policies/plan_explanation.h"
#include "policies/plan_formats.h"
#include "policies/plan_io.h"
#include "policies/rebalance/keep_in_place.h"
#include "policies/rebalance/migration.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/domain/placement.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

// Experts in order; where they do not divide over the GPUs, the first GPUs have one more, as vLLM has it
// (determine_expert_map).
PlacementPlan in_order(const PlanRequest& request) {
  const int experts = request.load.experts(), gpus = request.shape.gpus;
  LayerPlan layer;
  layer.slots.resize(static_cast<std::size_t>(experts));
  std::iota(layer.slots.begin(), layer.slots.end(), 0);
  for (int g = 0; g <= gpus; ++g) {
    layer.first_slot.push_back(g * (experts / gpus) + std::min(g, experts % gpus));
  }
  PlacementPlan out{.policy = "", .experts = experts, .gpus = gpus, .layers = {}};
  out.layers.assign(static_cast<std::size_t>(request.load.layers()), layer);
  return out;
}

// Whether a plan fits into memory is not asked here: a request states no memory.
Placement placed(const PlacementPlan& plan, const ClusterShape& shape) {
  return Placement::build(plan, shape, Bytes(0), Bytes(std::numeric_limits<double>::max()));
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string list(const std::vector<double>& values) {
  return fmt::format("[{}]", fmt::join(mapped(values, exact), ","));
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Bytes are whole numbers.
std::string bytes(double value) { return fmt::format("{:.0f}", value); }

std::string batches_json(const MigrationPlan& migration) {
  const auto move_json = [](const CopyMove& move) {
    return fmt::format("[{},{},{},{},{}]", move.layer, move.expert, move.from_gpu, move.to_gpu, move.to_slot);
  };
  const auto batch_json = [&](const std::vector<CopyMove>& batch) {
    return fmt::format("[{}]", fmt::join(mapped(batch, move_json), ","));
  };
  return fmt::format("[{}]", fmt::join(mapped(migration.batches, batch_json), ",\n      "));
}

std::string bytes_json(const std::vector<Bytes>& per_gpu) {
  return fmt::format("[{}]", fmt::join(mapped(per_gpu, [](const Bytes& each) { return bytes(each.count()); }), ","));
}

std::string links_json(const MigrationPlan& migration, const PlanRequest& request) {
  if (!request.expert_bytes) {
    return "null";
  }
  std::vector<CopyMove> moves;
  for (const std::vector<CopyMove>& batch : migration.batches) {
    moves.insert(moves.end(), batch.begin(), batch.end());
  }
  const MigrationBytes carried = migration_bytes(moves, *request.expert_bytes, request.shape);
  return fmt::format("{{\"node_out\": {}, \"node_in\": {}, \"nic_out\": {}, \"nic_in\": {}}}",
                     bytes_json(carried.intra_out), bytes_json(carried.intra_in), bytes_json(carried.inter_out),
                     bytes_json(carried.inter_in));
}

// How a GPU cluster gets from the previous plan of a request to the new one: the value of the plan file's key `migration`
// (policies/plan_formats.md).
std::string migration_json(const PlacementPlan& plan, const PlanRequest& request) {
  const MigrationPlan migration = plan_migration(plan, *request.previous, request.shape, request.migration_limit);
  return fmt::format(
      "{{\n    \"limit_per_gpu\": {},\n    \"batches\": {},\n    \"switches_after\": [{}],\n"
      "    \"staged_on_fullest_gpu\": {},\n    \"bytes_per_gpu\": {}\n  }}",
      request.migration_limit, batches_json(migration), fmt::join(migration.switches_after, ","),
      migration.staged_on_fullest_gpu, links_json(migration, request));
}

std::string bytes_per_gpu(const PlanFigures& figures, const PlanRequest& request, double without) {
  if (!request.expert_bytes) {
    return "null";
  }
  const auto bytes_of = [&](std::int64_t experts) {
    return bytes((static_cast<double>(experts) - without) * request.expert_bytes->count());
  };
  return fmt::format("[{}]", fmt::join(mapped(figures.experts_per_gpu, bytes_of), ","));
}

std::optional<double> moved_bytes(const PlanFigures& figures, const PlanRequest& request) {
  if (!figures.moved_copies || !request.expert_bytes) {
    return std::nullopt;
  }
  return static_cast<double>(*figures.moved_copies) * request.expert_bytes->count();
}

// Which layers of the model the request's layers are; without a model they are taken to be all.
ModelLayers model_layers(const PlanRequest& request) {
  if (request.model) {
    return {request.model->moe_layer_numbers(), request.model->layers};
  }
  ModelLayers out{std::vector<int>(static_cast<std::size_t>(request.load.layers())), request.load.layers()};
  std::iota(out.numbers.begin(), out.numbers.end(), 0);
  return out;
}

}  // namespace

PlanFigures plan_figures(const PlacementPlan& plan, const PlanRequest& request) {
  PlanFigures out;
  const Placement placement = placed(plan, request.shape);
  out.before = balancedness_by_layer(placed(in_order(request), request.shape), request.load);
  out.after = balancedness_by_layer(placement, request.load);
  for (int g = 0; g < plan.gpus; ++g) {
    out.experts_per_gpu.push_back(placement.resident(g));
  }
  if (request.previous) {
    out.previous = balancedness_by_layer(placed(*request.previous, request.shape), request.load);
    out.moved_copies = moved_copies(plan, *request.previous);
  }
  return out;
}

std::string plan_json(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures) {
  std::string out = "{\n";
  const auto add = [&](const char* key, const std::string& value) {
    out += fmt::format("  \"{}\": {},\n", key, value);
  };
  add("format", "\"epsim-plan-v1\"");
  add("policy", quoted(plan.policy));
  add("num_layers", fmt::format("{}", plan.layers.size()));
  add("num_experts", fmt::format("{}", plan.experts));
  add("num_nodes", fmt::format("{}", request.nodes));
  add("num_gpus", fmt::format("{}", plan.gpus));
  add("balancedness_before", list(figures.before));
  add("balancedness_after", list(figures.after));
  add("balancedness_previous", request.previous ? list(figures.previous) : "null");
  add("expert_bytes", request.expert_bytes ? bytes(request.expert_bytes->count()) : "null");
  add("experts_per_gpu", fmt::format("[{}]", fmt::join(figures.experts_per_gpu, ",")));
  add("memory_per_gpu_bytes", bytes_per_gpu(figures, request, 0));
  const double base = static_cast<double>(plan.experts) * static_cast<double>(plan.layers.size()) / plan.gpus;
  add("copies_per_gpu_bytes", bytes_per_gpu(figures, request, base));
  add("previous", request.previous ? quoted(request.previous_name) : "null");
  add("moved_copies", figures.moved_copies ? fmt::format("{}", *figures.moved_copies) : "null");
  const std::optional<double> moved = moved_bytes(figures, request);
  add("moved_bytes", moved ? bytes(*moved) : "null");
  if (const auto why = explanation_of(*request.placement, request.load, request.shape); why && !why->key.empty()) {
    add(why->key.c_str(), why->json);
  }
  add("migration", request.previous ? migration_json(plan, request) : "null");
  return out + plan_maps_json(plan) + "\n}\n";
}

std::string checked_plan_format(const std::string& format) {
  std::vector<std::string> known = engine_formats();
  known.insert(known.begin(), kOwnPlanFormat);
  refuse_if(std::find(known.begin(), known.end(), format) == known.end(), "format",
            unknown_name("format", format, known));
  return format;
}

std::string plan_file(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures,
                      const std::string& format) {
  return checked_plan_format(format) == kOwnPlanFormat ? plan_json(plan, request, figures)
                                                       : export_plan(plan, model_layers(request), format);
}

std::string plan_summary(const PlacementPlan& plan, const PlanRequest& request, const PlanFigures& figures) {
  const auto fullest = *std::max_element(figures.experts_per_gpu.begin(), figures.experts_per_gpu.end());
  const int copies = plan.copies_on_fullest_gpu();
  const double gib = request.expert_bytes ? to_gib(*request.expert_bytes) : 0;
  std::string out = fmt::format(
      "{}: {} of {} experts on {}; {} on the fullest GPU\n"
      "  balancedness, mean over layers: {:.4f} with experts in order and no copies, {:.4f} with this plan\n"
      "  physical experts on the fullest GPU: {}{}\n",
      plan.policy, count_of(plan.layers.size(), "layer"), plan.experts, count_of(plan.gpus, "GPU"),
      count_of(copies, "extra copy"), mean(figures.before), mean(figures.after), fullest,
      request.expert_bytes ? fmt::format(" ({:.3f} GiB)", static_cast<double>(fullest) * gib)
                           : "; their bytes are not known: the request has neither model nor expert_bytes");
  if (!request.previous) {
    return out + "  moved: not known, the request names no previous plan\n";
  }
  out += fmt::format("  balancedness of the previous plan on these loads: {:.4f}\n  moved: {}", mean(figures.previous),
                     count_of(*figures.moved_copies, "copy"));
  const std::optional<double> moved = moved_bytes(figures, request);
  return out + (moved ? fmt::format(" ({:.3f} GiB)\n", to_gib(Bytes(*moved))) : "\n");
}

}  // namespace epsim
