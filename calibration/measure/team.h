// How the nodes of a measurement work together: node 0 leads, the others do what it says. Each step is tried by all,
// then all learn whether all succeeded, so that nobody waits for one who gave up.
//
//   Models : one process per node. The leader alone plans, stops, prints and writes points.
//   Ignores: a node whose process dies without a word; mpirun then ends the others.
//   Valid  : any Peers; no GPU and no MPI is needed here, so that all of it is tested without.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>

#include "calibration/measure/collectives.h"
#include "calibration/measure/peers.h"

namespace epsim::measure {

// What the leader tells the others, sent as it stands in memory.
struct TeamCommand {
  enum class Task : std::int32_t { kJoin, kAllocate, kConnect, kTime, kCheck, kRelease, kStop };
  Task task = Task::kStop;
  std::int32_t number = 0;  // kJoin: GPUs of the leader's node; kTime: executions
  Collective collective;
  std::array<char, 128> id{};  // kConnect: what NCCL's ranks find each other by, drawn by the leader

  // Whether GPUs of several nodes wait for each other in it.
  bool joins_nodes() const {
    return collective.nodes > 1 && (task == Task::kConnect || task == Task::kTime || task == Task::kCheck);
  }
};

// One node's GPUs.
class TeamMember {
 public:
  virtual ~TeamMember() = default;
  // This node's part, and its figure where there is one: seconds for kTime, an error for kCheck. Never kJoin or kStop.
  // Anything thrown is this node's failure.
  virtual double carry_out(const TeamCommand& command) = 0;
};

// The leader's side; there is one at a time for `peers`, which must outlive it.
class TeamLeader {
 public:
  explicit TeamLeader(Peers& peers) : peers_(peers) {}
  ~TeamLeader() { dismiss(); }
  TeamLeader(const TeamLeader&) = delete;
  TeamLeader& operator=(const TeamLeader&) = delete;

  // All nodes get ready. Throws RunFailed when one cannot, or has another number of GPUs than the leader's.
  void join(int gpus);
  // The largest figure of all nodes. Throws MeasureFailed when any failed; where a node that failed leaves others
  // waiting inside a collective, all processes end instead, with the reason on this one's standard error.
  double lead(TeamMember& here, const TeamCommand& command);
  // Lets the other nodes go, once: they wait in follow() until then, however the leader ends.
  void dismiss();

  Peers& peers() const { return peers_; }

 private:
  Peers& peers_;
  bool dismissed_ = false;
};

// The other nodes' side, until the leader lets them go. `open` is called when the nodes join, with the leader's number
// of GPUs, and throws where this node cannot take part. What fails is told on `err`. Returns the exit code.
using MemberOpener = std::function<std::unique_ptr<TeamMember>(int gpus)>;
int follow(Peers& peers, const MemberOpener& open, std::ostream& err);

// For MemberOpener: throws RunFailed unless this node has as many GPUs as the leader's.
void check_same_gpus(int here, int leader);

}  // namespace epsim::measure
