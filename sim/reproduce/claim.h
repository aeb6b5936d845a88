// A paper's claim beside what a run of ours comes to.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

// What it takes to check a claim.
enum class ClaimKind {
  kExact,       // counts, bytes, plans: needs no prices
  kInput,       // what the setups are made to
  kCalibrated,  // a figure that needs prices of a step
  kTrend,       // needs them too, and claims a direction or an order alone
};
inline constexpr std::string_view kClaimKindNames[] = {"exact", "input", "calibrated", "trend"};

enum class Verdict {
  kReproduced,  // inside the tolerance
  kOrderOnly,   // outside, but on the claim's side of no effect; or a claim of order alone that the tolerance does not
                // cover
  kMissed,
};
inline constexpr std::string_view kVerdictNames[] = {"reproduced", "order only", "missed"};

// What a figure comes to when an input is changed alone.
struct InputMovement {
  std::string input, change;
  double before = 0, after = 0;
};

// The end of a tolerance that has none.
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// One figure of a claim. A claim with a mean and a maximum has two.
struct ClaimRow {
  std::string id;  // of the claim: C09
  std::string what;
  std::string paper;       // as the paper states it
  std::string unit;        // "" = a ratio or a count
  std::string place = {};  // in the paper: "Sec. 5.2, Fig. 24(a)"
  ClaimKind kind = ClaimKind::kCalibrated;
  double value = 0;
  std::optional<double> half_width;  // 95 %; none where nothing varies, or with one seed
  double low = 0, high = 0;          // the tolerance, inclusive but for `no_effect`
  std::optional<double> no_effect;   // the value that would mean no effect, where the claim has a direction
  double stated = 0;                 // the paper's value as a number, for the direction
  bool must_hold = true;             // whether a miss fails the reproduction
  std::string note;                  // how it was read
  // The inputs that move it most, where that was asked for; both figures are of a smaller study than `value`.
  std::vector<InputMovement> moved_by;

  bool needs_prices() const { return kind == ClaimKind::kCalibrated || kind == ClaimKind::kTrend; }
  Verdict verdict() const;
  // At the end of a tolerance that stops where the effect does: a direction that is not there.
  bool is_no_effect() const;
  // Why, in a clause: "0.11 below the tolerance, in the claim's direction".
  std::string reason() const;
};

// A claim without figures.
struct ClaimElsewhere {
  std::string id, statement, place;
  std::string held_by;  // the file of the test or benchmark that checks it, or
  std::string open;     // why nothing does yet
};

// What a set of claims was worked out with.
struct ClaimsInfo {
  std::string version;                         // of the program
  std::string study;                           // "CRAFT (arXiv 2603.28768)"
  std::string setting;                         // options of the reproduction, in words
  std::vector<std::string> not_run;            // ids of claims that it leaves out
  std::vector<ClaimElsewhere> elsewhere = {};  // those that no run of it can check
};

// A row with its words; the rest as it is by default.
ClaimRow named_row(std::string id, std::string what, std::string paper, std::string unit = "");

// A ratio between policies, or another figure, of one setup under one seed.
struct SetupRatio {
  std::string setup;
  int seed = 0;
  double value = 0;
  double resolution = 0;  // standard deviation that the searches' brackets leave in it
};

// Mean over setups of each setup's mean over seeds, and the setups whose mean is smallest and largest. The intervals
// come from the variance between seeds, pooled over setups: Student's t with setups x (seeds - 1) degrees of freedom;
// 1.96 deviations of what the searches do not resolve add to them.
// Of a setup without a value nothing else has one: mean, min and max are not numbers, and there are no intervals.
// Policies share random numbers inside a seed; setups must not, or their mean is told sharper than it is.
struct RatioSummary {
  double mean = 0, min = 0, max = 0;
  std::string min_setup, max_setup;
  std::optional<double> mean_half_width, setup_half_width;  // of the mean, and of one setup's
};
// `ratios` is not empty and holds the same seeds for every setup.
RatioSummary summarize_ratios(std::span<const SetupRatio> ratios);

// The table that the terminal shows, rows in order, notes below it.
std::string claims_table(std::span<const ClaimRow> rows, bool notes);
// A line for each of them; empty without any.
std::string elsewhere_text(std::span<const ClaimElsewhere> claims);
// One document: rows with every field, and the counts of verdicts. metrics.md defines the names.
std::string claims_json(std::span<const ClaimRow> rows, const ClaimsInfo& info);

// Whether every row that must hold was reproduced.
bool all_hold(std::span<const ClaimRow> rows);

}  // namespace epsim
