// A node's part in collectives without GPUs: it knows who takes part, what id it was given, and takes as long as told.
#pragma once

#include <functional>

#include "calibration/measure/device.h"
#include "calibration/measure/team.h"

namespace epsim::test {

using Task = measure::TeamCommand::Task;

// Node n's GPUs take 10 (n + 1) milliseconds for an execution; a node without GPUs in the collective none.
struct FakeMember : measure::TeamMember {
  FakeMember(int node_here, int gpus_here) : node(node_here), gpus(gpus_here) {}
  double carry_out(const measure::TeamCommand& command) override {
    on_command(command);
    if (command.task == Task::kAllocate) {
      part = measure::members_of(command.collective, node, gpus);
    }
    if (command.task == Task::kConnect) {
      id = command.id;
    }
    return command.task == Task::kTime && part.gpus > 0 ? command.number * (node + 1) * 1e-2 : 0.0;
  }
  int node, gpus;
  measure::Members part;
  std::array<char, 128> id{};
  std::function<void(const measure::TeamCommand&)> on_command = [](const auto&) {};
};

inline measure::TeamCommand team_command(Task task, int ranks, int nodes, int number = 0) {
  return {task, number, {measure::MeasuredCollective::kAllToAll, 4096, ranks, nodes}, {}};
}

inline void fail_on(FakeMember& member, Task task) {
  member.on_command = [task](const measure::TeamCommand& command) {
    if (command.task == task) {
      throw measure::MeasureFailed(measure::FailureKind::kOutOfMemory, "this node's memory is full");
    }
  };
}

}  // namespace epsim::test
