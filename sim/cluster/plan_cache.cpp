#include "sim/cluster/plan_cache.h"

#include <tbb/task_arena.h>

#include <cstring>
#include <span>

#include "sim/core/fingerprint.h"
#include "sim/domain/affinity.h"

namespace epsim {
namespace {

// Everything that the scenario says of a policy: its entry under `policies`, and `policy` itself where that is one.
std::string told_of(const Scenario& s, const PolicyChoice& policy) {
  ConfigReader root = Config::from_text(s.resolved, "resolved.yaml").root();
  std::string out;
  const auto add = [&out](ConfigReader entry) {
    for (const auto& [key, value] : entry.rest()) {
      out += key + ": " + value + "\n";
    }
  };
  add(root.section("policies").section(policy.planned_by));
  if (root.is_section("policy")) {
    add(root.section("policy"));
  }
  return out;
}

template <class T>
void add(Fingerprint& hash, std::span<const T> values) {
  hash.add(static_cast<std::uint64_t>(values.size()));
  const auto bytes = std::as_bytes(values);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    hash.add(word);
  }
}

std::uint64_t content_of(const LoadWindow& window) {
  Fingerprint hash;
  hash.add(static_cast<std::int64_t>(window.experts()));
  for (int l = 0; l < window.layers(); ++l) {
    add(hash, window.layer(l));
    for (int e = 0; e < window.experts() && window.batches() > 0; ++e) {
      add(hash, window.batches_of(l, e));
    }
    if (window.affinity() != nullptr) {
      add(hash, window.affinity()->layer(l));
    }
  }
  return hash.value();
}

}  // namespace

PlacementPlan PlanCache::plan(const Scenario& scenario, const PolicyChoice& policy, const LoadWindow& window,
                              const ClusterShape& shape) {
  const Key key{told_of(scenario, policy), content_of(window), shape.gpus, shape.gpus_per_node};
  std::promise<PlacementPlan> promise;
  std::shared_future<PlacementPlan> found;
  bool first = false;
  {
    const std::lock_guard lock(turn_);
    const auto [at, added] = plans_.try_emplace(key);
    if (added) {
      at->second = promise.get_future().share();
    }
    found = at->second;
    first = added;
  }
  if (first) {
    ++made_;
    // A policy may use oneTBB: this thread must not begin a job meanwhile that waits for the very same plan.
    tbb::this_task_arena::isolate([&] {
      try {
        promise.set_value(policy.placement->plan(window, shape));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    });
  }
  return found.get();
}

}  // namespace epsim
