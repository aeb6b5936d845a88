#include "sim/reproduce/paper_folder.h"

#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "sim/core/files.h"
#include "sim/domain/cost.h"
#include "sim/report/csv_table.h"
#include "sim/report/goodput_writer.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;

// The policies of a setup that were searched.
GoodputStudy study_of(const SetupEvidence& setup, const GatherOptions& options) {
  GoodputStudy out;
  out.options = options.goodput;
  out.seeds = options.seeds;
  for (const auto& [policy, found] : setup.policies) {
    const std::vector<JobFigures>& by_seed = found.of(PaperJob::kGoodput);
    if (!by_seed.empty()) {
      out.policies.push_back(policy);
    }
    for (const JobFigures& one : by_seed) {
      out.searches.push_back(*one.search);
    }
  }
  return out;
}

void write_study(const fs::path& folder, const SetupEvidence& setup, const GoodputStudy& study,
                 const std::string& version) {
  fs::create_directories(folder);
  RunInfo info;
  info.version = version;
  info.scenario = setup.scenario;
  info.seed = setup.seed;
  info.resolved_yaml = setup.resolved;
  write_goodput(folder, study, info);
}

using StudyMetric = std::pair<std::string, std::string>;

// What figures use, and of runs near and at the rates that a reader knows where their time goes.
std::set<StudyMetric> told_metrics(const PaperStudy& paper) {
  std::set<StudyMetric> out;
  const auto add = [&](const MetricOf& metric) {
    if (metric.study != "loads") {
      out.emplace(metric.study, metric.name);
    }
  };
  for (const PaperClaim& claim : paper.claims) {
    for (const ClaimFigure& figure : claim.figures) {
      figure.value.each_metric(add);
      for (const auto& [name, expression] : figure.beside) {
        expression.each_metric(add);
      }
    }
  }
  for (const char* study : {"near_knee", "run"}) {
    for (const std::string_view part : kLayerPartNames) {
      out.emplace(study, std::string(part) + "_share");
    }
  }
  return out;
}

// Of the seeds that it was gathered under; not a number where it was not.
double mean_over_seeds(const PaperEvidence& evidence, const std::string& setup, const MetricOf& metric) {
  const PolicyEvidence& policy = evidence.at(setup).policies.at(metric.policy);
  const std::optional<PaperJob> job = job_of(metric.study);
  const std::size_t seeds = job ? policy.of(*job).size() : 1;
  double sum = 0;
  for (std::size_t k = 0; k < seeds; ++k) {
    sum += measured(evidence, setup, metric, {.seed = k}).value;
  }
  return sum / static_cast<double>(seeds);
}

}  // namespace

void write_setups_csv(std::ostream& out, const PaperStudy& paper, const PaperEvidence& evidence) {
  const std::set<StudyMetric> told = told_metrics(paper);
  CsvTable csv(out, {"setup", "policy", "study", "metric", "value"});
  for (const PaperSetup& setup : paper.setups) {
    const auto found = evidence.find(setup.name);
    if (found == evidence.end()) {
      continue;
    }
    for (const auto& [policy, unused] : found->second.policies) {
      for (const auto& [study, name] : told) {
        const double value = mean_over_seeds(evidence, setup.name, {study, name, policy});
        if (std::isfinite(value)) {
          csv.text(setup.name).text(policy).text(study).text(name).number(value).end_row();
        }
      }
    }
  }
}

void write_paper_folder(const fs::path& folder, std::span<const ClaimRow> rows, const ClaimsInfo& info,
                        const PaperStudy& paper, const PaperEvidence& evidence, const GatherOptions& options,
                        std::span<const ClaimMovement> movements) {
  for (const PaperSetup& setup : paper.setups) {
    fs::remove_all(folder / setup.name);  // of other claims, from before
    const auto found = evidence.find(setup.name);
    const GoodputStudy study = found != evidence.end() ? study_of(found->second, options) : GoodputStudy{};
    if (!study.searches.empty()) {
      write_study(folder / setup.name, found->second, study, info.version);
    }
  }
  std::ostringstream setups;
  write_setups_csv(setups, paper, evidence);
  write_file_atomically(folder / "setups.csv", setups.str());
  fs::remove(folder / "sensitivity.csv");
  if (!movements.empty()) {
    std::ostringstream text;
    write_sensitivity_csv(text, movements);
    write_file_atomically(folder / "sensitivity.csv", text.str());
  }
  write_file_atomically(folder / "claims.json", claims_json(rows, info));
}

}  // namespace epsim
