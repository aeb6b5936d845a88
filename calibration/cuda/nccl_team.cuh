// Collectives over the GPUs of one or more nodes: this node's part (calibration/measure/team.h), and what the leader
// asks.
#pragma once

#include <nccl.h>

#include <map>
#include <memory>
#include <vector>

#include "calibration/cuda/workload.cuh"
#include "calibration/measure/collectives.h"
#include "calibration/measure/team.h"

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

class NcclTeam : public TeamMember {
 public:
  NcclTeam(int node, int gpus) : node_(node), gpus_(gpus) {}
  ~NcclTeam() override;
  NcclTeam(const NcclTeam&) = delete;
  NcclTeam& operator=(const NcclTeam&) = delete;

  double carry_out(const TeamCommand& command) override;

  // The leader's calls; each throws MeasureFailed when it failed on any node.
  void prepare(TeamLeader& leader, const Collective& collective);
  Seconds time(TeamLeader& leader, int launches);
  double check(TeamLeader& leader);  // 0 or infinite: data are compared bit by bit
  void release(TeamLeader& leader);

 private:
  using Task = TeamCommand::Task;
  void allocate(const Collective& collective);
  void connect(const TeamCommand& command);
  double time_here(int launches);
  double check_here();
  void execute();
  void enqueue(TeamRank& member, ncclComm_t communicator);
  void fill_and_poison(TeamRank& member);
  void compare(const TeamRank& member, OutputError& error) const;
  void synchronize();

  int node_, gpus_;
  Collective collective_;
  std::vector<TeamRank> members_;                                     // of this node
  std::map<std::pair<int, int>, std::vector<ncclComm_t>> connected_;  // by ranks and nodes
};

std::unique_ptr<Workload> make_collective_workload(TeamLeader& leader, NcclTeam& team, const PlannedPoint& point);

}  // namespace epsim::measure
