// Expert loads made by rule.
//
//   Models : one power law per MoE layer, load of the r-th hottest expert ~ r^-a; which experts are hot is drawn anew
//            for every layer. `skew` chooses a so that the hottest expert takes exactly the stated multiple of the
//            mean.
//   Drift  : every expert's load is multiplied by exp(drift * g), g normal, drawn for the number of the window, and the
//            layer scaled back to its total: windows with one seed and different numbers are the same workload at
//            different times. Stated skews then hold before the drift. Between SGLang's published DeepSeek-R1 prefill
//            windows of 2048- and 4096-token inputs, the logarithms of the shares differ by 0.126 (standard deviation,
//            mean over layers): each window has drifted by 0.089.
//   Ignores: correlation between layers, co-activation, group-limited routing.
//   Valid  : max / mean up to experts / top_k, where every token chooses the hottest expert.
#pragma once

#include <vector>

namespace epsim {

// Shares of a power law over `experts` ranks, hottest first, summing to 1.
std::vector<double> power_law_shares(int experts, double exponent);
// The exponent whose hottest share is `max_over_mean` / experts, for 1 <= max_over_mean <= experts. At the upper end the
// other shares are below what a double adds to 1.
double power_law_exponent(int experts, double max_over_mean);

}  // namespace epsim
