#include "sim/app/recordings.h"

#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/format.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTimelineFile = "timeline.json";
constexpr const char* kStepsFile = "steps.csv";

}  // namespace

void check_timeline(const po::variables_map& values, const Scenario& scenario) {
  if (values.count("timeline") == 0) {
    return;
  }
  const TimelineChoice choice = parse_timeline(values["timeline"].as<std::string>());
  std::int64_t tokens = 0;
  for (const Request& r : scenario.requests.requests) {
    tokens += std::int64_t{r.input_tokens} + r.output_tokens;
  }
  tokens *= scenario.faults.empty() ? 1 : 1 + scenario.deployment.retry_limit;
  refuse_if(choice.first >= tokens, "timeline",
            fmt::format("there is no step {}: each takes at least one token of a request, and all requests have {}; "
                        "steps count from 0.",
                        choice.first, tokens));
}

Recordings::Recordings(const po::variables_map& values, const fs::path& folder) {
  if (values.count("timeline") > 0) {
    all.add(timeline.emplace(parse_timeline(values["timeline"].as<std::string>())));
  }
  if (values.count("steps") > 0) {
    steps_file.open(folder / kStepsFile, std::ios::binary | std::ios::trunc);
    all.add(steps.emplace(steps_file));
  }
}

void Recordings::finish(const fs::path& folder, const RunResult& run) {
  if (timeline && !timeline->steps().empty()) {
    std::ostringstream out;
    write_timeline(out, *timeline, run.label);
    write_file_atomically(folder / kTimelineFile, out.str());
  }
  if (steps) {
    steps.reset();  // writes what it still holds
    steps_file.close();
    if (!steps_file) {
      throw RunFailed(fmt::format("{}: cannot be written; is the disk full?", (folder / kStepsFile).string()));
    }
  }
}

bool Recordings::print_timeline(const RunResult& run, const fs::path& target) const {
  if (!timeline) {
    return true;
  }
  const TimelineChoice& choice = timeline->choice();
  if (timeline->steps().empty()) {
    std::cerr << (choice.slowest
                      ? "epsim: `timeline`: the run has no step of that kind to draw\n"
                      : fmt::format("epsim: `timeline`: the run has {} steps, counted from 0, so there is no "
                                    "step {} to draw\n",
                                    run.steps, choice.first));
    return false;
  }
  const TimelineStep &first = timeline->steps().front(), &last = timeline->steps().back();
  const std::string what =
      choice.slowest
          ? fmt::format(
                "step {} of instance {} takes {} ms, the longest{}", first.step, first.instance,
                rounded(to_ms(to_seconds(first.length))),
                choice.kind ? fmt::format(" {} step", kStepKindNames[static_cast<std::size_t>(*choice.kind)]) : "")
          : fmt::format("steps {} to {}{}", first.step, last.step,
                        timeline->cut_short() ? ", cut short for its size" : "");
  std::cout << fmt::format("timeline: {} ({}; open it in ui.perfetto.dev)\n", (target / kTimelineFile).string(), what);
  return true;
}

}  // namespace epsim::app
