// One question to a deployment of a capacity search: at a rate, with as many requests as the verdict takes.
#pragma once

#include <atomic>

#include "sim/cluster/prepare.h"
#include "sim/scenario/scenario.h"
#include "sim/study/capacity_result.h"

namespace epsim {

// A deployment that is ready to run. Not to be moved: the scenario is referred to.
struct ReadyDeployment {
  Scenario scenario;
  PreparedRun prepared;
  double input_tokens = 0, output_tokens = 0;  // means of the whole demand
};

// One question to a deployment that is ready to run.
struct Asked {
  const ReadyDeployment& deployment;
  const LoadPoint& alone;
  double rate = 0, clients = 0;  // requests/s, or clients in a closed loop; 0: none
  bool cut = false, few = false;
  GoodputOptions options;
  const std::atomic<bool>* stop = nullptr;
};

// The verdict on a load: of requests scaled to the rate, of which there may be as many for each instance as the question
// allows, and for a recording, where these hold, of its bursts, with up to `most_of_recording` of its requests. Throws
// StudyInterrupted.
CapacityAnswer answer_to(const Asked& asked, const CapacityQuestion& question, std::size_t most_of_recording);

// What an answer says of the deployment itself.
CapacityAnswer answer_of(const ReadyDeployment& deployment);

// The first `count` requests; `cut`: with answers of two tokens.
RequestTrace trace_of(const Scenario& scenario, std::size_t count, bool cut);

// Where only prompts are looked at, so are their bounds: none may be left. And the place in `slo` of what is term `index`
// of those.
GoodputOptions options_for(const GoodputOptions& options, bool cut);
int limit_in(const Slo& slo, bool cut, int index);

}  // namespace epsim
