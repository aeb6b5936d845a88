// Collectives over the GPUs of one or more nodes. Every process holds a team; the leader's tells the others what to do.
#pragma once

#include <nccl.h>

#include <map>
#include <memory>
#include <vector>

#include "calibration/cuda/peers.h"
#include "calibration/cuda/workload.cuh"
#include "calibration/measure/collectives.h"

namespace epsim::measure {

inline void nccl_check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) {
    throw MeasureFailed(FailureKind::kLaunch, std::string(what) + ": " + ncclGetErrorString(status));
  }
}

// One GPU's part in a collective.
struct TeamRank {
  int gpu = 0, rank = 0;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> start, stop;
  Buffer<std::uint64_t> send, receive;
  struct Part {
    std::int64_t send_at, send_words, receive_at, receive_words;
  };
  std::vector<Part> parts;  // by the other rank; of sends and receives only
};

class NcclTeam {
 public:
  NcclTeam(Peers& peers, int gpus) : peers_(peers), gpus_(gpus) {}
  ~NcclTeam();
  NcclTeam(const NcclTeam&) = delete;
  NcclTeam& operator=(const NcclTeam&) = delete;

  // The leader's calls; each throws MeasureFailed when it failed on any node.
  void prepare(const Collective& collective);
  Seconds time(int launches);
  double check();  // 0 or infinite: data are compared bit by bit
  void release();
  void dismiss();  // ends serve() on the other nodes

  // The other nodes' loop.
  void serve();

 private:
  enum class Task : std::int32_t { kAllocate, kConnect, kTime, kCheck, kRelease, kStop };
  struct Command {
    Task task = Task::kStop;
    std::int32_t launches = 0;
    Collective collective;
  };
  double lead(const Command& command);
  double carry_out(const Command& command);

  void allocate(const Collective& collective);
  void connect();
  double time_here(int launches);
  double check_here();
  void execute();
  void enqueue(TeamRank& member, ncclComm_t communicator);
  void fill_and_poison(TeamRank& member);
  void compare(const TeamRank& member, OutputError& error) const;
  void synchronize();

  Peers& peers_;
  int gpus_;
  Collective collective_;
  std::vector<TeamRank> members_;                                     // of this node
  std::map<std::pair<int, int>, std::vector<ncclComm_t>> connected_;  // by ranks and nodes
};

std::unique_ptr<Workload> make_collective_workload(NcclTeam& team, const PlannedPoint& point);

}  // namespace epsim::measure
