#include "calibration/cuda/nccl_team.cuh"

#include <algorithm>
#include <cstring>
#include <iostream>

#include "calibration/measure/numbers.h"

namespace epsim::measure {

NcclTeam::~NcclTeam() {
  for (auto& [shape, communicators] : connected_) {
    for (ncclComm_t c : communicators) {
      ncclCommDestroy(c);
    }
  }
}

// The id is drawn before the others hear of it: whoever cannot draw one leaves nobody waiting.
void NcclTeam::prepare(TeamLeader& leader, const Collective& collective) {
  leader.lead(*this, {Task::kAllocate, 0, collective, {}});
  TeamCommand command{Task::kConnect, 0, collective, {}};
  if (!connected_.contains({collective.ranks, collective.nodes})) {
    ncclUniqueId id{};
    static_assert(sizeof id == sizeof command.id, "NCCL's id travels with the command");
    nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::memcpy(command.id.data(), &id, sizeof id);
  }
  leader.lead(*this, command);
}
Seconds NcclTeam::time(TeamLeader& leader, int launches) {
  return Seconds(leader.lead(*this, {Task::kTime, launches, collective_, {}}));
}
double NcclTeam::check(TeamLeader& leader) { return leader.lead(*this, {Task::kCheck, 0, collective_, {}}); }
void NcclTeam::release(TeamLeader& leader) { leader.lead(*this, {Task::kRelease, 0, collective_, {}}); }

double NcclTeam::carry_out(const TeamCommand& command) {
  switch (command.task) {
    case Task::kAllocate:
      allocate(command.collective);
      return 0;
    case Task::kConnect:
      connect(command);
      return 0;
    case Task::kTime:
      return time_here(command.number);
    case Task::kCheck:
      return check_here();
    case Task::kJoin:
    case Task::kRelease:
    case Task::kStop:
      members_.clear();
      return 0;
  }
  return 0;
}

void NcclTeam::allocate(const Collective& c) {
  members_.clear();
  collective_ = c;
  const Members here = members_of(c, node_, gpus_);
  for (int gpu = 0; gpu < here.gpus; ++gpu) {
    cuda_check(cudaSetDevice(gpu), "cudaSetDevice");
    TeamRank member;
    member.gpu = gpu;
    member.rank = here.first_rank + gpu;
    member.stream = std::make_unique<Stream>();
    member.start = std::make_unique<Event>();
    member.stop = std::make_unique<Event>();
    member.send = Buffer<std::uint64_t>(static_cast<std::size_t>(c.send_words(member.rank)));
    member.receive = Buffer<std::uint64_t>(static_cast<std::size_t>(c.receive_words(member.rank)));
    for (int other = 0; other < c.ranks && !c.reduces(); ++other) {
      member.parts.push_back({c.send_offset(member.rank, other), c.words(member.rank, other),
                              c.receive_offset(other, member.rank), c.words(other, member.rank)});
    }
    members_.push_back(std::move(member));
  }
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
}

void NcclTeam::connect(const TeamCommand& command) {
  const std::pair shape(collective_.ranks, collective_.nodes);
  if (connected_.contains(shape)) {
    return;
  }
  ncclUniqueId id{};
  std::memcpy(&id, command.id.data(), sizeof id);
  std::vector<ncclComm_t> communicators(members_.size());
  nccl_check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t m = 0; m < members_.size(); ++m) {
    cuda_check(cudaSetDevice(members_[m].gpu), "cudaSetDevice");
    nccl_check(ncclCommInitRank(&communicators[m], collective_.ranks, id, members_[m].rank), "ncclCommInitRank");
  }
  nccl_check(ncclGroupEnd(), "connecting the ranks");
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
  connected_[shape] = communicators;
}

void NcclTeam::enqueue(TeamRank& member, ncclComm_t communicator) {
  const cudaStream_t stream = *member.stream;
  std::uint64_t *send = member.send.data(), *receive = member.receive.data();
  const auto size = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  switch (collective_.kind) {
    case MeasuredCollective::kAllToAll:
    case MeasuredCollective::kAllToAllV:
      for (std::size_t other = 0; other < member.parts.size(); ++other) {
        const TeamRank::Part& p = member.parts[other];
        const int rank = static_cast<int>(other);
        nccl_check(ncclSend(send + p.send_at, size(p.send_words), ncclUint64, rank, communicator, stream), "ncclSend");
        nccl_check(ncclRecv(receive + p.receive_at, size(p.receive_words), ncclUint64, rank, communicator, stream),
                   "ncclRecv");
      }
      break;
    case MeasuredCollective::kAllGather:
      nccl_check(ncclAllGather(send, receive, member.send.size(), ncclUint64, communicator, stream), "ncclAllGather");
      break;
    case MeasuredCollective::kReduceScatter:
      nccl_check(ncclReduceScatter(send, receive, 2 * member.receive.size(), ncclFloat, ncclSum, communicator, stream),
                 "ncclReduceScatter");
      break;
    case MeasuredCollective::kAllReduce:
      nccl_check(ncclAllReduce(send, receive, 2 * member.send.size(), ncclFloat, ncclSum, communicator, stream),
                 "ncclAllReduce");
      break;
  }
}

void NcclTeam::execute() {
  const std::vector<ncclComm_t>& communicators = connected_.at({collective_.ranks, collective_.nodes});
  nccl_check(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t m = 0; m < members_.size(); ++m) {
    enqueue(members_[m], communicators[m]);
  }
  nccl_check(ncclGroupEnd(), "the collective");
}

void NcclTeam::synchronize() {
  for (TeamRank& member : members_) {
    cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
    cuda_check(cudaDeviceSynchronize(), "the collective");
  }
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
}

// The slowest rank's time. An execution that is not timed comes first: it brings the ranks together.
double NcclTeam::time_here(int launches) {
  for (TeamRank& member : members_) {
    cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
    spin_kernel(20'000 + std::int64_t{20'000} * launches * static_cast<std::int64_t>(members_.size()), *member.stream);
  }
  execute();
  for (TeamRank& member : members_) {
    cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
    cuda_check(cudaEventRecord(*member.start, *member.stream), "cudaEventRecord");
  }
  for (int i = 0; i < launches; ++i) {
    execute();
  }
  float slowest = 0;
  for (TeamRank& member : members_) {
    cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
    cuda_check(cudaEventRecord(*member.stop, *member.stream), "cudaEventRecord");
  }
  synchronize();
  for (TeamRank& member : members_) {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, *member.start, *member.stop), "cudaEventElapsedTime");
    slowest = std::max(slowest, milliseconds);
  }
  return slowest * 1e-3;
}

void NcclTeam::fill_and_poison(TeamRank& member) {
  cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
  if (collective_.reduces()) {
    fill_floats(reinterpret_cast<float*>(member.send.data()), 2 * member.send.size(), sum_seed(member.rank), kSumSteps,
                *member.stream);
  } else if (collective_.kind == MeasuredCollective::kAllGather) {
    fill_words(member.send.data(), member.send.size(), part_seed(member.rank, 0), *member.stream);
  } else {
    for (std::size_t other = 0; other < member.parts.size(); ++other) {
      const TeamRank::Part& p = member.parts[other];
      fill_words(member.send.data() + p.send_at, static_cast<std::size_t>(p.send_words),
                 part_seed(member.rank, static_cast<int>(other)), *member.stream);
    }
  }
  cuda_check(cudaMemsetAsync(member.receive.data(), 0xff, member.receive.bytes(), *member.stream), "poison");
}

void NcclTeam::compare(const TeamRank& member, OutputError& error) const {
  const auto word = [&](std::int64_t at) {
    std::uint64_t out = 0;
    cuda_check(cudaMemcpy(&out, member.receive.data() + at, 8, cudaMemcpyDeviceToHost), "reading what arrived");
    return out;
  };
  if (collective_.reduces()) {
    const auto words = static_cast<std::int64_t>(member.receive.size());
    const std::int64_t first = collective_.kind == MeasuredCollective::kReduceScatter ? member.rank * words : 0;
    for (const Sample& s : sample_outputs(1, words, 16, 1)) {
      const std::uint64_t got = word(s.column);
      float pair[2];
      std::memcpy(pair, &got, 8);
      for (int half = 0; half < 2; ++half) {
        const float expected = expected_sum(collective_.ranks, 2 * (first + s.column) + half);
        error.add(pair[half] == expected ? 0 : 1, 0, "sum on rank " + std::to_string(member.rank));
      }
    }
    return;
  }
  for (std::size_t from = 0; from < member.parts.size(); ++from) {
    const TeamRank::Part& p = member.parts[from];
    const int to = collective_.kind == MeasuredCollective::kAllGather ? 0 : member.rank;
    for (const Sample& s : sample_outputs(1, p.receive_words, 6, 1)) {
      const std::uint64_t expected =
          mix_bits(part_seed(static_cast<int>(from), to) + static_cast<std::uint64_t>(s.column));
      error.add(word(p.receive_at + s.column) == expected ? 0 : 1, 0,
                "rank " + std::to_string(member.rank) + " from rank " + std::to_string(from));
    }
  }
}

double NcclTeam::check_here() {
  for (TeamRank& member : members_) {
    fill_and_poison(member);
  }
  execute();
  synchronize();
  OutputError error;
  for (const TeamRank& member : members_) {
    cuda_check(cudaSetDevice(member.gpu), "cudaSetDevice");
    compare(member, error);
  }
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
  return members_.empty() ? 0 : error.relative();
}

namespace {

class CollectiveWorkload : public Workload {
 public:
  CollectiveWorkload(TeamLeader& leader, NcclTeam& team, const Collective& collective) : leader_(leader), team_(team) {
    team_.prepare(leader_, collective);
  }
  ~CollectiveWorkload() override {
    try {
      team_.release(leader_);
    } catch (const MeasureFailed& failure) {
      std::cerr << "epsim-calibrate: " << failure.what() << std::endl;
    }
  }
  std::vector<std::string> kernels() const override { return {"nccl"}; }
  Seconds time(std::size_t, int launches) override { return team_.time(leader_, launches); }
  CheckReport check(std::size_t) override { return {team_.check(leader_), 0, "words that did not arrive"}; }

 private:
  TeamLeader& leader_;
  NcclTeam& team_;
};

}  // namespace

std::unique_ptr<Workload> make_collective_workload(TeamLeader& leader, NcclTeam& team, const PlannedPoint& point) {
  return std::make_unique<CollectiveWorkload>(
      leader, team,
      Collective{collective_kind(point.op->name), static_cast<std::int64_t>(point.value("bytes")),
                 static_cast<int>(point.value("ranks")), static_cast<int>(point.value("nodes"))});
}

}  // namespace epsim::measure
