// A chain of a capacity search: the designs of one kind of node and one role, and the fewest nodes among them; of as many
// nodes those that keep clearest of their bounds, or draw least where power counts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/capacity_runs.h"
#include "sim/study/known_failures.h"

namespace epsim {

// The prefill instances that decode instances may come beside: of the same engine, dtype, settings and policy.
using Feeders = std::vector<CapacityPool>;
// Whether instances of both can be of one deployment, whose pools share engine, dtype and settings.
bool go_together(const CapacityDesign& a, const CapacityDesign& b);

struct ChainResult {
  std::vector<CapacityRow> rows;
  std::optional<CapacityPool> best;
  CapacityAnswer answer, alone;       // of the best
  std::vector<CapacityOption> close;  // that miss the SLO narrowly, with fewer nodes than the best
};

// The most nodes of a deployment, spare ones, too, and what they are in a sentence.
struct NodeLimit {
  int nodes = 0;
  std::string words;
};

// `feeders`: for decode instances; one without any cannot be. `limit` counts theirs, too. Decode instances are asked
// beside at least their share of the prefill ones: what fails is theirs. Whether both hold together is the caller's to
// ask, and to tell in `failures`.
class CapacityChain {
 public:
  CapacityChain(CapacityRuns& runs, NodeLimit limit, const KnownFailures& failures = {}, Feeders feeders = {})
      : runs_(runs),
        question_(runs.question()),
        limit_(std::move(limit)),
        failures_(failures),
        feeders_(std::move(feeders)) {}

  ChainResult search(const std::vector<CapacityDesign>& layouts, const std::vector<std::string>& policies);

 private:
  // The most instances of a design on fewer nodes than the best, or on as many: all that the limit allows without one.
  struct Room {
    int instances = 0;
    std::string words;
    bool as_many = false;
  };

  // Those of `policies` that the layout can have and, where it needs any, prefill instances hold under.
  std::vector<std::string> fed(const CapacityDesign& layout, std::vector<std::string> policies) const;
  // What all policies of a layout share: whether it fits, and the fewest instances by its bounds (`reason` says which).
  CapacityRow layout_row(const CapacityDesign& layout);
  void try_layout(const CapacityRow& layout, const std::vector<std::string>& policies);
  std::optional<CapacityRow> beaten_ceiling(const CapacityRow& layout);
  void try_policy(CapacityRow row);
  void settle(CapacityRow row);  // into the ledger
  void reject_by_bound(CapacityRow row, const Room& room);
  struct KnownFailure {
    int instances = 0;
    double strain = 0;
  };
  void descend(CapacityRow row, int low, KnownFailure failed);
  void first_best(CapacityRow row);
  CapacityAnswer ask(const CapacityRow& row, int instances);  // of a deployment that ran as a whole: what that said
  CapacityAnswer ask_share(const CapacityRow& row, int instances);
  // The deployment that the row's design makes, with those that feed it.
  std::vector<CapacityPool> deployment_of(const CapacityDesign& design, int instances) const;
  // As a deployment at a share of the rate: one instance, beside at least its share of those that feed it.
  std::vector<CapacityPool> pools_for(const CapacityDesign& design, int instances) const;
  Room room_of(const CapacityDesign& design, bool as_many) const;
  std::vector<Room> rooms_of(const CapacityRow& row) const;  // in which its bound fits
  // The bounds by which designs of a role are compared on as many nodes, and whether power comes first.
  Slo compared_by(InstanceRole role) const;
  bool by_power(InstanceRole role) const;
  bool draws_alike(const CapacityAnswer& share) const;  // as the best, to what runs differ by in length
  // On as many nodes; `by` is how much the logarithm of the worst ratio of a latency to its bound must be lower. Shares
  // are compared with shares: a run of all instances has their router's queues, too.
  bool beats_best(const CapacityRow& row, double by);
  // Of a policy; of perfect balance, which stands for all policies, the fewest. Null: none.
  const CapacityPool* feeder_of(const CapacityDesign& design) const;
  int offset_of(const CapacityDesign& design) const;
  int paid(const CapacityPool& pool) const;      // nodes, with those of its spare instances
  int nodes_of(const CapacityPool& pool) const;  // with those of its feeder, too
  std::string failure(const CapacityRow& row, const std::string& where) const;
  std::string beaten_words(const CapacityRow& row, const CapacityRow& best);
  void fill_nodes(CapacityRow& row);
  void set_best(CapacityRow row);

  CapacityRuns& runs_;
  const CapacityQuestion& question_;
  NodeLimit limit_;
  KnownFailures failures_;
  Feeders feeders_;
  ChainResult out_;
  std::optional<std::size_t> best_row_;
  CapacityAnswer best_share_;  // of one of its instances, at its share
};

}  // namespace epsim
