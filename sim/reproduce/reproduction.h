// A paper's evaluation run again: its claims with what the same setups come to here.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/paper_study.h"
#include "sim/study/job_store.h"

namespace epsim {

struct ReproductionRequest {
  std::string paper;                                  // as claims_file() takes it
  std::optional<std::vector<std::string>> only = {};  // ids of claims; none: all
  std::optional<int> seeds = {};                      // none: the file's
  std::vector<std::string> overrides = {};            // of every setup, "key=value"
  bool quick = false, sensitivity = false, overwrite = false;
};

// Called for each setup that is done, one at a time.
using OnSetup = std::function<void(const std::string& setup, std::size_t done, std::size_t all)>;

struct ReproductionControl {
  const std::atomic<bool>* stop = nullptr;
  OnSetup on_setup = {};
  Sharing sharing = {};  // of the folder; a shard throws ShardFinished
};

struct Reproduction {
  std::vector<ClaimRow> rows;
  ClaimsInfo info;
};

// The file of claims: `paper` itself where it ends in .yaml, else that of the paper's folder in experiments/ of the
// working folder or of the installation. Throws InputError that lists the papers.
std::filesystem::path claims_file(const std::string& paper);

// Runs what the claims need, keeps finished searches in `folder`, and writes the result there (paper_folder.h) with
// report.html. Throws InputError and StudyInterrupted.
Reproduction reproduce(const PaperStudy& paper, const ReproductionRequest& request, const std::filesystem::path& folder,
                       const ReproductionControl& control);

// For the terminal: the claims with their verdicts, and those that no run checks.
std::string reproduction_text(const Reproduction& done);

}  // namespace epsim
