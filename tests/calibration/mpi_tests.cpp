// The nodes of a measurement under mpirun, each process playing a node: `mpirun -n 3 mpi_tests CASE`. No GPU is needed.
//   sweep    the whole program with a fake device: who writes, who takes part in what; exit code 0
//   options  the leader is given a wrong option while the others wait for it; exit code 2
//   join     one node cannot take part; exit code 1
//   broken   one node fails in the midst of a collective while the others wait inside it; not 0
//   host     two processes on one host, which is refused; exit code 1
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "calibration/measure/command.h"
#include "calibration/mpi/open_peers.h"
#include "calibration/points.h"
#include "sim/core/error.h"
#include "tests/calibration/fake_sweep.h"
#include "tests/calibration/fake_team.h"

namespace epsim::test {
namespace {

using namespace measure;

constexpr int kGpus = 2;  // of each node

void expect(bool good, const std::string& what) {
  if (!good) {
    throw RunFailed("expected: " + what);
  }
}

struct TeamWorkload : Workload {
  TeamWorkload(TeamLeader& of, FakeMember& member, FakeClock& moved, const PlannedPoint& point)
      : leader(of),
        here(member),
        clock(moved),
        collective{collective_kind(point.op->name), static_cast<std::int64_t>(point.value("bytes")),
                   static_cast<int>(point.value("ranks")), static_cast<int>(point.value("nodes"))} {
    leader.lead(here, {Task::kAllocate, 0, collective, {}});
    leader.lead(here, {Task::kConnect, 0, collective, {'i', 'd'}});
  }
  std::vector<std::string> kernels() const override { return {"fake"}; }
  Seconds time(std::size_t, int launches) override {
    const Seconds took(leader.lead(here, {Task::kTime, launches, collective, {}}));
    clock.time += took;
    return took;
  }
  CheckReport check(std::size_t) override { return {leader.lead(here, {Task::kCheck, 0, collective, {}}), 0, ""}; }
  TeamLeader& leader;
  FakeMember& here;
  FakeClock& clock;
  Collective collective;
};

struct TeamDevice : FakeDevice {
  TeamDevice(FakeClock& moved, TeamLeader& of) : FakeDevice(moved), leader(of), here(0, kGpus) {
    machine.gpus = kGpus;
    machine.nodes = of.peers().nodes();
    leader.join(kGpus);
  }
  std::unique_ptr<Workload> prepare(const PlannedPoint& point) override {
    clock.time += Seconds(5);  // so that the two minutes of --quick see the hull alone, in few messages
    return std::make_unique<TeamWorkload>(leader, here, clock, point);
  }
  TeamLeader& leader;
  FakeMember here;
};

// What main.cpp does with a GPU, with a fake one; the points go to `file`.
int lead(Peers& peers, std::vector<std::string> options, const std::filesystem::path& file) {
  FakeClock clock;
  CommandContext context;
  TeamLeader leader(peers);
  context.open = [&] {
    Provenance provenance;
    provenance.gpu = "NVIDIA Fake-1000";
    return OpenedDevice{std::make_unique<TeamDevice>(clock, leader), provenance};
  };
  context.clock = std::make_unique<SharedClock>(clock);
  options.insert(options.end(), {"--output", file.string()});
  std::ostringstream out;
  return calibrate(options, context, out);
}

// Node n takes 10 (n + 1) ms. One node's two GPUs take the first node's time; collectives across nodes the last node's.
void check_points(const std::filesystem::path& file, int nodes) {
  const PointFile points = read_points(file);
  const PointTable& table = *points.find("nccl_all_to_all");
  std::map<std::pair<double, double>, int> seen;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double ranks = table.values_of("ranks")[i], across = table.values_of("nodes")[i];
    const double ms = across == 1 ? 10 : 10 * nodes;
    expect(std::abs(table.time_s[i] * 1e3 - ms) < 1e-6, "the slowest node that takes part sets the time");
    ++seen[{ranks, across}];
  }
  const double n = nodes;
  expect(seen.size() == 3 && seen.contains({kGpus, 1}) && seen.contains({n, n}) && seen.contains({kGpus * n, n}),
         "points inside a node, of one GPU of each node, and of all GPUs");
}

int play(const std::string& what) {
  const auto peers = open_mpi_peers(what == "host" ? HostRule::kOneProcessEach : HostRule::kAny);
  const std::filesystem::path folder = std::filesystem::path("mpi_" + what);
  if (peers->node() != 0) {
    std::string id;
    const MemberOpener open = [&](int gpus) -> std::unique_ptr<TeamMember> {
      check_same_gpus(what == "join" && peers->node() == 2 ? 1 : kGpus, gpus);
      auto member = std::make_unique<FakeMember>(peers->node(), gpus);
      member->on_command = [&, node = peers->node()](const TeamCommand& command) {
        if (command.task == Task::kConnect) {
          id.assign(command.id.data(), 2);
        }
        if (what == "broken" && command.task == Task::kTime && node == 2) {
          throw MeasureFailed(FailureKind::kLaunch, "the GPU fell off the bus");
        }
        if (what == "broken" && command.task == Task::kTime && command.joins_nodes()) {
          std::this_thread::sleep_for(std::chrono::hours(1));  // as a collective waits for the node that failed
        }
      };
      return member;
    };
    const int code = follow(*peers, open, std::cerr);
    expect(what != "sweep" || id == "id", "the id of the last communicator on node " + std::to_string(peers->node()));
    return code;
  }
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::vector<std::string> sweep = {"--quick", "--only", "nccl_all_to_all"};
  const int code = lead(*peers, what == "options" ? std::vector<std::string>{"--qick"} : sweep, folder / "points.h5");
  check_points(folder / "points.h5", peers->nodes());
  return code;
}

}  // namespace
}  // namespace epsim::test

int main(int argc, char** argv) {
  try {
    return epsim::test::play(argc > 1 ? argv[1] : "sweep");
  } catch (const epsim::InputError& e) {
    std::cerr << e.what() << std::endl;
    return 2;
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}
