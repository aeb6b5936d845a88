#include "sim/reproduce/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/report/metric.h"
#include "sim/study/goodput_store.h"

namespace epsim {
namespace {

constexpr int kFiguresFormat = 2;  // raised when what is kept changes

constexpr std::string_view kPaperStudies[] = {"loads",      "plan",      "goodput", "near_knee",
                                              "below_knee", "saturated", "run"};
constexpr std::string_view kLoadFigures[] = {"hottest_over_mean", "top2_share"};
constexpr std::string_view kPlanFigures[] = {"balancedness_planned", "copies_per_gpu", "experts_per_gpu",
                                             "kv_lost_to_copies_share", "kv_pool_gib_per_gpu"};
constexpr std::string_view kGoodputFigures[] = {"knee_requests_per_s", "saturation_requests_per_s"};

std::vector<std::string> names_in(const std::string& study) {
  if (study == "loads") {
    return {std::begin(kLoadFigures), std::end(kLoadFigures)};
  }
  if (study == "plan") {
    return {std::begin(kPlanFigures), std::end(kPlanFigures)};
  }
  if (study == "goodput") {
    return {std::begin(kGoodputFigures), std::end(kGoodputFigures)};
  }
  std::vector<std::string> out;
  for (const Metric& metric : metrics()) {
    if (metric.has_mean()) {
      out.push_back(metric.name);
    }
  }
  return out;
}

double number_named(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  return found != numbers.end() ? found->second : std::numeric_limits<double>::quiet_NaN();
}

Measured knee_of(const GoodputSearch& search, const Reading& reading) {
  if (reading.saturation) {
    return {search.saturation, 0};
  }
  if (!reading.k || *reading.k == search.knee.k) {
    return {search.knee.rate, search.knee.bracket_share};
  }
  const auto at = std::ranges::find(search.sensitivity, *reading.k, &Knee::k);
  EPSIM_CHECK(at != search.sensitivity.end(), "searches report the knee at every k that is asked for");
  return {at->rate, at->bracket_share};
}

}  // namespace

std::optional<PaperJob> job_of(std::string_view study) {
  if (study == "near_knee") {
    return PaperJob::kGoodput;
  }
  const auto found = std::find(std::begin(kPaperJobNames), std::end(kPaperJobNames), study);
  return found == std::end(kPaperJobNames) ? std::nullopt
                                           : std::optional(static_cast<PaperJob>(found - std::begin(kPaperJobNames)));
}

void check_metric(const MetricOf& metric) {
  const std::vector<std::string> studies(std::begin(kPaperStudies), std::end(kPaperStudies));
  if (std::find(studies.begin(), studies.end(), metric.study) == studies.end()) {
    throw std::invalid_argument(unknown_name("study", metric.study, studies));
  }
  const std::vector<std::string> known = names_in(metric.study);
  if (std::find(known.begin(), known.end(), metric.name) == known.end()) {
    throw std::invalid_argument(unknown_name(fmt::format("metric of {}", metric.study), metric.name, known));
  }
}

Measured measured(const PaperEvidence& evidence, const std::string& setup, const MetricOf& metric,
                  const Reading& reading) {
  const auto here = evidence.find(setup);
  EPSIM_CHECK(here != evidence.end(), "a figure uses only setups that were gathered");
  if (metric.study == "loads") {
    return {number_named(here->second.loads, metric.name + " " + metric.policy)};
  }
  const auto policy = here->second.policies.find(metric.policy);
  EPSIM_CHECK(policy != here->second.policies.end(), "a figure uses only policies that were gathered");
  const std::optional<PaperJob> job = job_of(metric.study);
  if (!job) {
    return {number_named(policy->second.plan, metric.name)};
  }
  const std::vector<JobFigures>& by_seed = policy->second.of(*job);
  EPSIM_CHECK(reading.seed < by_seed.size(), "a figure uses only runs that were made");
  const JobFigures& figures = by_seed[reading.seed];
  if (metric.study != "goodput") {
    return {number_named(figures.numbers, metric.name)};
  }
  return metric.name == "knee_requests_per_s" ? knee_of(*figures.search, reading)
                                              : Measured{figures.search->saturation};
}

EPSIM_STORED(JobFigures, search, numbers);

std::string stored_text(const std::vector<JobFigures>& by_seed) { return store_text(kFiguresFormat, by_seed); }

std::optional<std::vector<JobFigures>> stored_figures(const std::string& text) {
  return read_stored<std::vector<JobFigures>>(text, kFiguresFormat);
}

}  // namespace epsim
