#include "sim/reproduce/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/check.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

using SetupPairs = std::vector<std::pair<std::string, std::string>>;

double nine_digits(double value) { return std::round(value * 1e9) / 1e9; }

// One figure of one claim, on the setups of a scope.
class FigureWork {
 public:
  FigureWork(const PaperClaim& claim, const ClaimFigure& figure, const PaperEvidence& evidence,
             const GatherOptions& options, SetupPairs setups, const std::optional<double>& k)
      : claim_(claim), figure_(figure), evidence_(evidence), options_(options), setups_(std::move(setups)), k_(k) {}

  ClaimRow row() const {
    const RatioSummary found = summarize_ratios(by_setup_and_seed());
    ClaimRow out = named_row(claim_.id, figure_.what, figure_.paper, figure_.unit);
    out.place = claim_.where;
    out.kind = figure_.kind;
    const double value = figure_.over == Over::kMean      ? found.mean
                         : figure_.over == Over::kLargest ? found.max
                                                          : found.min;
    out.value = figure_.exact ? nine_digits(value) : value;
    out.half_width = figure_.over == Over::kMean ? found.mean_half_width : found.setup_half_width;
    out.low = figure_.exact ? nine_digits(figure_.low) : figure_.low;
    out.high = figure_.exact ? nine_digits(figure_.high) : figure_.high;
    out.no_effect = figure_.no_effect;
    out.stated = figure_.stated;
    out.must_hold = !figure_.told;
    out.note = note(found);
    return out;
  }

 private:
  Measured at(const Expression& expression, const std::pair<std::string, std::string>& setup,
              const Reading& reading) const {
    return expression.value([&](const MetricOf& metric) {
      const std::string& here = metric.other ? setup.second : setup.first;
      MetricOf named = metric;
      if (metric.policy == "best" && claim_.best) {
        named.policy = best_on(here);
        if (named.policy.empty()) {
          return Measured{std::numeric_limits<double>::quiet_NaN(), 0};
        }
      }
      return measured(evidence_, here, named, reading);
    });
  }

  // "" where one of the policies has no value.
  std::string best_on(const std::string& setup) const {
    std::string out;
    double most = 0;
    for (const std::string& policy : claim_.best->policies) {
      MetricOf of = claim_.best->of;
      of.policy = policy;
      double sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(options_.seeds); ++k) {
        sum += measured(evidence_, setup, of, {.seed = k, .k = k_}).value;
      }
      if (!std::isfinite(sum)) {
        return "";
      }
      if (out.empty() || sum > most) {
        most = sum;
        out = policy;
      }
    }
    return out;
  }

  // Plans are those of the first seed, so that figures of plans alone have no interval.
  std::vector<SetupRatio> by_setup_and_seed() const {
    bool runs = false;
    figure_.value.each_metric([&](const MetricOf& metric) { runs = runs || job_of(metric.study); });
    std::vector<SetupRatio> out;
    for (const auto& setup : setups_) {
      for (int seed = 0; seed < (runs ? options_.seeds : 1); ++seed) {
        const Measured found = at(figure_.value, setup, {.seed = static_cast<std::size_t>(seed), .k = k_});
        // A knee lies anywhere inside its bracket, whose width over sqrt(12) is its deviation.
        out.push_back({setup.first, seed, found.value, found.value * found.open / std::sqrt(12.0)});
      }
    }
    return out;
  }

  std::string note(const RatioSummary& found) const {
    std::vector<std::string> words;
    if (!figure_.note.empty()) {
      words.push_back(figure_.note);
    }
    if (setups_.size() > 1 && figure_.over != Over::kMean) {
      words.push_back("on " + (figure_.over == Over::kLargest ? found.max_setup : found.min_setup));
    }
    bool best = false;
    figure_.value.each_metric([&](const MetricOf& metric) { best = best || metric.policy == "best"; });
    if (const std::string name = claim_.best && best ? best_on(setups_.front().first) : ""; !name.empty()) {
      words.push_back("the best is " + name);
    }
    if (figure_.setups.size() > 1 || !figure_.beside.empty()) {
      words.push_back(each_setup());
    }
    if (std::string other = at_other_k(); !other.empty()) {
      words.push_back(std::move(other));
    }
    return fmt::format("{}", fmt::join(words, "; "));
  }

  // "first seed: de8 1.19, dj8 1.15": with what stands beside it "first seed: ke6 2.11 (goodput 1.9, KV pools 3.6)".
  std::string each_setup() const {
    std::vector<std::string> parts;
    for (const auto& setup : setups_) {
      std::vector<std::string> beside;
      for (const auto& [name, expression] : figure_.beside) {
        beside.push_back(fmt::format("{} {}", name, rounded(at(expression, setup, {.k = k_}).value)));
      }
      parts.push_back(fmt::format("{} {}{}", setup.first, rounded(at(figure_.value, setup, {.k = k_}).value),
                                  beside.empty() ? "" : fmt::format(" ({})", fmt::join(beside, ", "))));
    }
    return fmt::format("{}{}", options_.seeds > 1 ? "first seed: " : "", fmt::join(parts, ", "));
  }

  // The same mean at the other values of k, and of the throughput under a burst: a verdict that flips with the knee's
  // definition must say so.
  std::string at_other_k() const {
    bool knees = false;
    figure_.value.each_metric([&](const MetricOf& metric) { knees = knees || metric.name == "knee_requests_per_s"; });
    if (!knees || figure_.over != Over::kMean || options_.goodput.sensitivity.empty()) {
      return "";
    }
    std::vector<std::string> parts;
    const auto add = [&](const std::string& name, const Reading& reading) {
      double sum = 0;
      for (const auto& setup : setups_) {
        sum += at(figure_.value, setup, reading).value;
      }
      const double mean = sum / static_cast<double>(setups_.size());
      parts.push_back(fmt::format("{}: {:.2f}{}", name, mean, mean >= figure_.low && mean <= figure_.high ? "*" : ""));
    };
    for (const double k : options_.goodput.sensitivity) {
      add(fmt::format("{:g}", k), {.k = k});
    }
    add("saturation throughput", {.saturation = true});
    return fmt::format("at other k (* within the tolerance): {}", fmt::join(parts, ", "));
  }

  const PaperClaim& claim_;
  const ClaimFigure& figure_;
  const PaperEvidence& evidence_;
  const GatherOptions& options_;
  SetupPairs setups_;
  std::optional<double> k_;
};

// Adds what a metric takes on a setup.
void add_need(PaperNeeds& needs, const PaperStudy& paper, const std::string& setup, const MetricOf& metric) {
  if (metric.study == "loads") {
    needs[setup];
    return;
  }
  std::array<bool, kPaperJobs>& mine = needs[setup][metric.policy];
  const std::optional<PaperJob> job = job_of(metric.study);
  if (job) {
    mine[static_cast<std::size_t>(*job)] = true;
  }
  if (job == PaperJob::kBelowKnee) {
    for (const std::string& policy : paper.below_knee.at(setup)) {
      needs[setup][policy][static_cast<std::size_t>(PaperJob::kGoodput)] = true;
    }
  }
}

}  // namespace

bool PaperScope::has(const std::string& setup) const {
  return !setups || std::find(setups->begin(), setups->end(), setup) != setups->end();
}

SetupPairs setups_in(const PaperScope& scope, const PaperClaim& claim, const ClaimFigure& figure) {
  SetupPairs out;
  for (const auto& [setup, other] : figure.setups) {
    const bool wanted = !(scope.setups && claim.takes_long) && scope.has(setup) && (other.empty() || scope.has(other));
    if (wanted) {
      out.emplace_back(setup, other);
    }
  }
  return out;
}

PaperNeeds needs_of(const PaperStudy& paper, const std::vector<PaperClaim>& claims, const PaperScope& scope) {
  PaperNeeds out;
  for (const PaperClaim& claim : claims) {
    for (const ClaimFigure& figure : claim.figures) {
      for (const auto& [setup, other] : setups_in(scope, claim, figure)) {
        const auto add = [&, here = setup, there = other](const MetricOf& metric) {
          MetricOf named = metric;
          const bool best = metric.policy == "best" && claim.best;
          for (const std::string& policy : best ? claim.best->policies : std::vector<std::string>{metric.policy}) {
            named.policy = policy;
            add_need(out, paper, metric.other ? there : here, named);
            if (best) {
              named.study = claim.best->of.study;
              add_need(out, paper, metric.other ? there : here, named);
              named.study = metric.study;
            }
          }
        };
        figure.value.each_metric(add);
        for (const auto& [name, expression] : figure.beside) {
          expression.each_metric(add);
        }
      }
    }
  }
  return out;
}

std::vector<ClaimRow> rows_of(const PaperClaim& claim, const PaperEvidence& evidence, const GatherOptions& options,
                              const PaperScope& scope, const std::optional<double>& k) {
  std::vector<ClaimRow> out;
  for (const ClaimFigure& figure : claim.figures) {
    SetupPairs setups = setups_in(scope, claim, figure);
    if (!setups.empty()) {
      out.push_back(FigureWork(claim, figure, evidence, options, std::move(setups), k).row());
    }
  }
  return out;
}

}  // namespace epsim
