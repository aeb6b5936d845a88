// Fits links to measured NCCL collectives: from the points of epsim-calibrate to a link profile
// (models/hardware/README.md).
//
//   Models : time over what a GPU's share of the link carries, between the measured sizes in straight lines, as
//            LinkProfile prices it. A larger buffer never takes less time: where noise says so, neighbours are pooled.
//            Each curve is also summed up as a latency and a share of the link's rate (fit_link).
//   Held out: a fifth of the sizes, chosen by a hash, is not in the curves; the stated errors are of these. A skewed
//            all-to-allv is none of the curves: its error is that of the all-to-all's at its busiest receiver.
//   Ignores: collectives of one GPU in each node where nodes have more: a GPU alone has all of its node's NICs.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibration/fit.h"
#include "models/catalogue/hardware_profile.h"

namespace epsim {

// Data-sheet rates of one GPU's share of the links, in each direction; 0 = not stated.
struct LinkRates {
  double intra_bytes_per_s = 0;
  double inter_bytes_per_s = 0;
};

struct FittedLink {
  bool inter = false;
  int gpus_per_node = 0;
  LinkProfile profile;
  std::string source;
};

// One per tier that the points have collectives of; `note` hears, in words, why a tier or a curve is left out.
std::vector<FittedLink> fit_links(const PointFile& points, const LinkRates& rates,
                                  const std::function<void(const std::string&)>& note);

// YAML that link_profile() reads back.
std::string link_yaml(const FittedLink& link);

// A link profile against points of its tier, collective by collective.
std::vector<ComparedErrors> compare_link(const LinkProfile& link, bool inter, const PointFile& points);

// For people: the curves with their latency, share of the link's rate, and error.
std::string link_text(const LinkProfile& link);
// Lines of errors.csv.
std::string link_errors_csv(const FittedLink& link);

// time = alpha + bytes / (efficiency x rate), efficiency in (0, 1.5]: what a link needs for a message. Coefficients by
// non-negative least squares on the relative error; errors on the held-out fifth.
struct LinkFit {
  double alpha_s = 0;
  double efficiency = 0;
  ErrorSummary held_out;
};
LinkFit fit_link(std::span<const double> bytes, std::span<const double> time_s, double bytes_per_s);

}  // namespace epsim
