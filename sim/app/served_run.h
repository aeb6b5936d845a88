// Runs the scenarios of served points, each different one once, and keeps what each gave:
//
//   served-inputs.json   the inputs: program, table, layout, scenario, overrides
//   points/KEY.json      one finished scenario each
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/app/served_layout.h"

namespace epsim::app {

struct ServedRequest {
  std::filesystem::path table;
  ServedLayout layout;
  std::filesystem::path scenario;      // that every point begins from
  std::vector<std::string> overrides;  // of --set, after the layout's
};

struct ServedControl {
  const std::atomic<bool>* stop = nullptr;
  bool overwrite = false;
  std::function<void(std::size_t to_run, std::size_t before)> on_start = {};
  std::function<void()> on_run = {};
};

// Refuses what --set gives where the scenario of no point takes it: a key that none has, a value of the wrong type. Throws
// InputError.
void check_overrides(const ServedRequest& request, const std::vector<ServedPoint>& points);

bool holds_served(const std::filesystem::path& folder, const ServedRequest& request);

// Gives every point that is expressed its run; false, and none has one, when the stop flag cut it short. Throws
// InputError when the folder holds something else.
bool run_served(const ServedRequest& request, std::vector<ServedPoint>& points, const std::filesystem::path& folder,
                const ServedControl& control);

}  // namespace epsim::app
