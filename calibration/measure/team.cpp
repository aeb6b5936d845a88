#include "calibration/measure/team.h"

#include <fmt/format.h>

#include <iostream>
#include <type_traits>

#include "calibration/measure/device.h"
#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim::measure {
namespace {

static_assert(std::is_trivially_copyable_v<TeamCommand>, "a command travels as bytes");

struct Attempt {
  double value = 0;
  bool failed = false;
  FailureKind kind = FailureKind::kLaunch;
  std::string problem;
};

// Every exception counts: one that got past here would leave the others waiting.
template <class Work>
Attempt attempt(Work work) {
  Attempt out;
  try {
    out.value = work();
    return out;
  } catch (const MeasureFailed& failure) {
    out.kind = failure.kind;
    out.problem = failure.what();
  } catch (const std::exception& e) {
    out.problem = e.what();
  }
  out.failed = true;
  return out;
}

// The same for all: the largest value, and whether anyone failed.
Attempt agree(Peers& peers, Attempt mine) {
  mine.failed = peers.largest(mine.failed ? 1 : 0) > 0;
  mine.value = peers.largest(mine.value);
  return mine;
}

void tell(std::ostream& err, const Peers& peers, const std::string& problem) {
  err << fmt::format("epsim-calibrate: node {}: {}", peers.node(), problem) << std::endl;
}

Attempt take_part(Peers& peers, TeamMember& here, const TeamCommand& command, std::ostream& err) {
  Attempt mine = attempt([&] { return here.carry_out(command); });
  if (mine.failed && command.joins_nodes()) {
    tell(err, peers, mine.problem + "; the other nodes wait for this one, so that all end here");
    peers.end_all();
  }
  return mine;
}

std::string reason(const Attempt& mine) {
  return mine.problem.empty() ? "another node failed; its own output says why" : mine.problem;
}

}  // namespace

void TeamLeader::dismiss() {
  TeamCommand stop;
  if (!dismissed_) {
    dismissed_ = true;
    peers_.broadcast(&stop, sizeof stop);
  }
}

void TeamLeader::join(int gpus) {
  TeamCommand command{.task = TeamCommand::Task::kJoin, .number = gpus, .collective = {}, .id = {}};
  peers_.broadcast(&command, sizeof command);
  const Attempt all = agree(peers_, {});
  if (all.failed) {
    throw RunFailed(reason(all));
  }
}

double TeamLeader::lead(TeamMember& here, const TeamCommand& command) {
  TeamCommand sent = command;
  peers_.broadcast(&sent, sizeof sent);
  const Attempt all = agree(peers_, take_part(peers_, here, command, std::cerr));
  if (all.failed) {
    throw MeasureFailed(all.kind, reason(all));
  }
  return all.value;
}

int follow(Peers& peers, const MemberOpener& open, std::ostream& err) {
  std::unique_ptr<TeamMember> member;
  int exit_code = 0;
  for (;;) {
    TeamCommand command;
    peers.broadcast(&command, sizeof command);
    Attempt mine;
    if (command.task == TeamCommand::Task::kStop) {
      return exit_code;
    }
    if (command.task == TeamCommand::Task::kJoin) {
      mine = attempt([&] {
        member = open(command.number);
        return 0.0;
      });
      exit_code = mine.failed ? 1 : 0;
    } else {
      EPSIM_CHECK(member != nullptr, "the nodes join before they measure");
      mine = take_part(peers, *member, command, err);
    }
    if (mine.failed) {
      tell(err, peers, mine.problem);
    }
    agree(peers, mine);
  }
}

void check_same_gpus(int here, int leader) {
  if (here != leader) {
    throw RunFailed(
        fmt::format("this node has {} GPUs, the first one {}; collectives are measured over nodes with as many each "
                    "(hide the others "
                    "with CUDA_VISIBLE_DEVICES)",
                    here, leader));
  }
}

}  // namespace epsim::measure
