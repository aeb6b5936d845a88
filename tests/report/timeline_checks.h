// What holds of every trace in the Trace Event Format that a viewer is to open.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace epsim::test {

using TrackId = std::pair<int, int>;  // process, thread

// Slices of a track, by start; they must not overlap.
inline std::map<TrackId, std::vector<std::pair<double, double>>> slices_by_track(const nlohmann::json& trace) {
  std::map<TrackId, std::vector<std::pair<double, double>>> out;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") {
      CHECK(event.at("dur").get<double>() >= 0);
      CHECK_FALSE(event.at("name").get<std::string>().empty());
      out[{event.at("pid"), event.at("tid")}].emplace_back(event.at("ts"), event.at("dur"));
    }
  }
  for (const auto& [track, slices] : out) {
    for (std::size_t i = 1; i < slices.size(); ++i) {
      CHECK(slices[i].first >=
            slices[i - 1].first + slices[i - 1].second - 1e-6);  // a picosecond, for the sum's rounding
    }
  }
  return out;
}

// Events are sorted and not negative in time, slices do not overlap, every process and thread has a name, and every
// flow has one start and one end, in that order, each on a slice.
inline void check_timeline(const nlohmann::json& trace) {
  const auto tracks = slices_by_track(trace);
  std::map<TrackId, int> named;
  std::map<int, int> processes;
  std::map<std::int64_t, std::string> flows;
  double last = 0;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M") {
      const std::string name = event.at("name");
      named[{event.at("pid"), event.at("tid")}] += name == "thread_name" ? 1 : 0;
      processes[event.at("pid")] += name == "process_name" ? 1 : 0;
      continue;
    }
    const double at = event.at("ts");
    CHECK(at >= last);
    last = at;
    CHECK(processes[event.at("pid")] == 1);
    if (phase == "s" || phase == "t" || phase == "f") {
      flows[event.at("id")] += phase;
      bool found = false;
      for (const auto& [start, duration] : tracks.at({event.at("pid"), event.at("tid")})) {
        found = found || start == at;
      }
      CHECK(found);
    }
  }
  for (const auto& [track, slices] : tracks) {
    CHECK(named[track] == 1);
  }
  for (const auto& [flow, phases] : flows) {
    const auto& id = flow;
    CAPTURE(id);
    CHECK(phases.size() >= 2);
    CHECK(phases == "s" + std::string(phases.size() - 2, 't') + "f");
  }
}

}  // namespace epsim::test
