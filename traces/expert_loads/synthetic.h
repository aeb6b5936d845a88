// Expert loads made by rule.
//
//   Models : one power law per MoE layer, load of the r-th hottest expert ~ r^-a; which experts are hot is drawn anew
//            for every layer. `skew` chooses a so that the hottest expert takes exactly the stated multiple of the
//            mean.
//   Ignores: correlation between layers, co-activation, group-limited routing.
//   Valid  : max / mean up to experts / top_k, where every token chooses the hottest expert.
#pragma once

#include <vector>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

// Keys of all three:
//   tokens         size of the window (default 2^23)
//   drift, window  every expert's load is multiplied by exp(drift * g), g normal, drawn for this number of a window,
//            and
//                  the layer scaled back to its total (defaults 0, 0): windows with one seed and different numbers are
//                  the same workload at different times. Stated skews then hold before the drift. Between SGLang's
//                  published DeepSeek-R1 prefill windows of 2048- and 4096-token inputs, the logarithms of the shares
//                  differ by 0.126 (standard deviation, mean over layers): each window has drifted by 0.089.
LoadWindow make_uniform_loads(ConfigReader& in, const MoeSpec& model, Seed seed);
// Keys: exponent; it may not be so steep that an expert would take more than one assignment per token.
LoadWindow make_zipf_loads(ConfigReader& in, const MoeSpec& model, Seed seed);
// Keys: max_over_mean (a list, one per MoE layer), or low, high and high_share: that share of the layers, drawn at
// random, has max / mean = high, the others low.
LoadWindow make_skew_loads(ConfigReader& in, const MoeSpec& model, Seed seed);

// Shares of a power law over `experts` ranks, hottest first, summing to 1.
std::vector<double> power_law_shares(int experts, double exponent);
// The exponent whose hottest share is `max_over_mean` / experts, for 1 <= max_over_mean <= experts. At the upper end the
// other shares are below what a double adds to 1.
double power_law_exponent(int experts, double max_over_mean);

}  // namespace epsim
