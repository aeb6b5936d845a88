#include "sim/verbs/plan_migration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "policies/rebalance/migration.h"

namespace epsim {
namespace {

std::string batches_json(const MigrationPlan& migration) {
  std::vector<std::string> batches;
  for (const std::vector<CopyMove>& batch : migration.batches) {
    std::vector<std::string> moves;
    for (const CopyMove& move : batch) {
      moves.push_back(
          fmt::format("[{},{},{},{},{}]", move.layer, move.expert, move.from_gpu, move.to_gpu, move.to_slot));
    }
    batches.push_back(fmt::format("[{}]", fmt::join(moves, ",")));
  }
  return fmt::format("[{}]", fmt::join(batches, ",\n      "));
}

std::string bytes_json(const std::vector<Bytes>& per_gpu) {
  std::vector<std::string> out;
  for (const Bytes& bytes : per_gpu) {
    out.push_back(fmt::format("{:.0f}", bytes.count()));
  }
  return fmt::format("[{}]", fmt::join(out, ","));
}

std::string links_json(const MigrationPlan& migration, const PlanRequest& request) {
  if (!request.expert_bytes) {
    return "null";
  }
  std::vector<CopyMove> moves;
  for (const std::vector<CopyMove>& batch : migration.batches) {
    moves.insert(moves.end(), batch.begin(), batch.end());
  }
  const MigrationBytes bytes = migration_bytes(moves, *request.expert_bytes, request.shape);
  return fmt::format("{{\"node_out\": {}, \"node_in\": {}, \"nic_out\": {}, \"nic_in\": {}}}",
                     bytes_json(bytes.intra_out), bytes_json(bytes.intra_in), bytes_json(bytes.inter_out),
                     bytes_json(bytes.inter_in));
}

}  // namespace

std::string migration_json(const PlacementPlan& plan, const PlanRequest& request) {
  const MigrationPlan migration = plan_migration(plan, *request.previous, request.shape, request.migration_limit);
  return fmt::format(
      "{{\n    \"limit_per_gpu\": {},\n    \"batches\": {},\n    \"switches_after\": [{}],\n"
      "    \"staged_on_fullest_gpu\": {},\n    \"bytes_per_gpu\": {}\n  }}",
      request.migration_limit, batches_json(migration), fmt::join(migration.switches_after, ","),
      migration.staged_on_fullest_gpu, links_json(migration, request));
}

}  // namespace epsim
