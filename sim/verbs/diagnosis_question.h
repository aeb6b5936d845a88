// What `epsim diagnose` asks: recorded counts, and the deployment that they are tried on. docs/diagnose.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/verbs/diagnose_counts.h"

namespace epsim {

struct DiagnosisRequest {
  std::string counts, later;             // recordings to plan from and to score on; no `later`: half of `counts` each
  std::string format = "auto";           // of the recordings, as `epsim trace import --format`
  std::string scenario;                  // its file; empty: SGLang on `nodes` of `node`
  std::string model, node = "DGX-H200";  // without a scenario; no model: the one of the counts' shape
  std::optional<int> nodes;              // none: the fewest that hold the model, two at least
  std::vector<std::string> overrides;    // of the scenario, "requests.rate=8/s"
  int seeds = 3;
  std::string counts_title = {}, later_title = {};  // of recordings whose files the asker does not know; else empty

  const std::string& counts_name() const { return counts_title.empty() ? counts : counts_title; }
  const std::string& later_name() const { return later_title.empty() ? later : later_title; }
};

struct DiagnosisQuestion {
  RecordedCounts counts;
  std::size_t planned = 0;        // windows that plans are made from
  std::string title;              // two lines: the deployment, and how the windows are used
  std::vector<Scenario> by_seed;  // their loads are the windows that are scored
};

// Throws InputError and, where `nodes` do not hold the model, DoesNotFit.
DiagnosisQuestion read_question(const DiagnosisRequest& request);

}  // namespace epsim
