// Leader and followers as threads of one process: what each hears, and that nobody is left waiting.
#include "calibration/measure/team.h"

#include <doctest/doctest.h>

#include <barrier>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

#include "sim/core/error.h"
#include "tests/calibration/fake_team.h"
#include "tests/support/errors.h"

namespace epsim::test {
namespace {

using namespace measure;

struct Ended {};

// What the processes of an MPI_COMM_WORLD share.
struct World {
  explicit World(int nodes) : barrier(nodes), values(static_cast<std::size_t>(nodes)) {}
  std::barrier<> barrier;
  std::vector<double> values;
  const void* from = nullptr;
};

struct ThreadPeers : Peers {
  ThreadPeers(World& shared, int which) : world(shared), here(which) {}
  int nodes() const override { return static_cast<int>(world.values.size()); }
  int node() const override { return here; }
  void broadcast(void* data, std::size_t bytes) override {
    if (here == 0) {
      world.from = data;
    }
    world.barrier.arrive_and_wait();
    if (here != 0) {
      std::memcpy(data, world.from, bytes);
    }
    world.barrier.arrive_and_wait();
  }
  double largest(double value) override {
    world.values[static_cast<std::size_t>(here)] = value;
    world.barrier.arrive_and_wait();
    const double out = *std::max_element(world.values.begin(), world.values.end());
    world.barrier.arrive_and_wait();
    return out;
  }
  World& world;
  int here;
};

struct Followers {
  std::vector<int> exit_codes;
  std::vector<std::string> errors;
};

// Node 0 does `lead`, the others follow with members made by `open`.
Followers together(int nodes, const std::function<void(TeamLeader&)>& lead,
                   const std::function<std::unique_ptr<TeamMember>(int node, int gpus)>& open) {
  World world(nodes);
  Followers out{std::vector<int>(static_cast<std::size_t>(nodes)),
                std::vector<std::string>(static_cast<std::size_t>(nodes))};
  std::vector<std::jthread> threads;
  for (int n = 1; n < nodes; ++n) {
    threads.emplace_back([&, n] {
      ThreadPeers peers(world, n);
      std::ostringstream err;
      const auto at = static_cast<std::size_t>(n);
      out.exit_codes[at] = follow(
          peers, [&](int gpus) { return open(n, gpus); }, err);
      out.errors[at] = err.str();
    });
  }
  {
    ThreadPeers peers(world, 0);
    TeamLeader leader(peers);
    lead(leader);
  }
  threads.clear();  // joins them
  return out;
}

std::unique_ptr<TeamMember> plain(int node, int gpus) { return std::make_unique<FakeMember>(node, gpus); }

TEST_CASE("every node hears the leader's id, and takes the part that is its own") {
  std::vector<FakeMember*> members(3);
  FakeMember here(0, 2);
  TeamCommand connect = team_command(Task::kConnect, 6, 3);
  for (std::size_t i = 0; i < connect.id.size(); ++i) {
    connect.id[i] = static_cast<char>(i + 1);
  }
  const Followers done = together(
      3,
      [&](TeamLeader& leader) {
        leader.join(2);
        leader.lead(here, team_command(Task::kAllocate, 6, 3));
        leader.lead(here, connect);
        for (const int n : {1, 2}) {
          const FakeMember& member = *members[static_cast<std::size_t>(n)];
          CHECK(member.id == connect.id);
          CHECK(member.part.gpus == 2);
          CHECK(member.part.first_rank == 2 * n);
        }
        // The slowest node is the third: 5 executions of 30 ms. Inside the first node, 5 of 10 ms.
        CHECK(leader.lead(here, team_command(Task::kTime, 6, 3, 5)) == doctest::Approx(0.15));
        leader.lead(here, team_command(Task::kAllocate, 2, 1));
        CHECK(leader.lead(here, team_command(Task::kTime, 2, 1, 5)) == doctest::Approx(0.05));
      },
      [&](int node, int gpus) {
        auto member = std::make_unique<FakeMember>(node, gpus);
        members[static_cast<std::size_t>(node)] = member.get();
        return member;
      });
  CHECK(done.exit_codes == std::vector<int>{0, 0, 0});
}

TEST_CASE("what fails on one node fails on all, and the work goes on") {
  FakeMember here(0, 1);
  const auto lead = [&](TeamLeader& leader) {
    leader.join(1);
    check_contains(error_of<MeasureFailed>([&] { leader.lead(here, team_command(Task::kAllocate, 3, 3)); }).what(),
                   {"another node failed", "its own output says why"});
    CHECK(leader.lead(here, team_command(Task::kTime, 1, 1, 4)) >= 0);
  };
  const Followers done = together(3, lead, [](int node, int gpus) {
    auto member = std::make_unique<FakeMember>(node, gpus);
    if (node == 2) {
      fail_on(*member, Task::kAllocate);
    }
    return member;
  });
  CHECK(done.errors[1].empty());
  CHECK(done.errors[2] == "epsim-calibrate: node 2: this node's memory is full\n");
  CHECK(done.exit_codes == std::vector<int>{0, 0, 0});
}

TEST_CASE("the leader's own failure keeps its kind and its words") {
  FakeMember here(0, 1);
  fail_on(here, Task::kAllocate);
  together(
      2,
      [&](TeamLeader& leader) {
        leader.join(1);
        try {
          leader.lead(here, team_command(Task::kAllocate, 2, 2));
          FAIL("it failed on this node");
        } catch (const MeasureFailed& failure) {
          CHECK(failure.kind == FailureKind::kOutOfMemory);
          CHECK(std::string(failure.what()) == "this node's memory is full");
        }
      },
      plain);
}

TEST_CASE("a leader that ends before it begins lets the others go") {
  CHECK(together(
            3, [](TeamLeader&) {}, plain)
            .exit_codes == std::vector<int>{0, 0, 0});
}

TEST_CASE("a node that cannot take part stops the leader, and says why") {
  const auto lead = [](TeamLeader& leader) {
    check_contains(error_of<RunFailed>([&] { leader.join(8); }).what(), {"another node failed"});
  };
  const Followers done = together(3, lead, [](int node, int gpus) -> std::unique_ptr<TeamMember> {
    check_same_gpus(node == 1 ? 4 : 8, gpus);
    return plain(node, gpus);
  });
  CHECK(done.exit_codes == std::vector<int>{0, 1, 0});
  check_contains(done.errors[1], {"node 1: this node has 4 GPUs, the first one 8", "CUDA_VISIBLE_DEVICES"});
}

TEST_CASE("a node that fails where GPUs wait for each other across nodes ends them all") {
  struct EndingPeers : Peers {
    void end_all() override { throw Ended(); }
  };
  EndingPeers peers;
  TeamLeader leader(peers);
  for (const Task task : {Task::kConnect, Task::kTime, Task::kCheck}) {
    FakeMember here(0, 1);
    fail_on(here, task);
    CHECK_THROWS_AS(leader.lead(here, team_command(task, 2, 2)), Ended);
    CHECK_THROWS_AS(leader.lead(here, team_command(task, 1, 1)), MeasureFailed);  // inside a node nobody else waits
  }
}

}  // namespace
}  // namespace epsim::test
