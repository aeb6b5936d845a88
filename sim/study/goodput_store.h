// A finished search as JSON, for the folders that keep searches from one run of the program to the next. Every number
// reads back as it was.
#pragma once

#include <optional>
#include <string>

#include "sim/study/goodput_result.h"
#include "sim/study/store_json.h"

namespace epsim {

EPSIM_STORED(Knee, k, rate, ttft_s, limit, bracket_share, interpolated, steady);
EPSIM_STORED(Summary, count, mean, p50, p90, p95, p99, max);
EPSIM_STORED(SloTermScore, value, allowed, half_width);
EPSIM_STORED(SloScore, attainment, excess, excess_half_width, limit, holds, decided, terms);
EPSIM_STORED(SloFinding, holds, rate, low, high, limit);
EPSIM_STORED(LoadPoint, offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, outstanding, slo,
             stable, enough_requests, requests, measured_requests, steps, fingerprint, backlog, extrapolated);
EPSIM_STORED(GoodputSearch, policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve,
             from_backlog, kv_lost_share, kv_tokens_per_rank);

inline constexpr int kSearchFormat = 8;  // of a search's file: raised when the figures above change

inline std::string stored_text(const GoodputSearch& search) { return store_text(kSearchFormat, search); }
// Nothing when the text is damaged or of another layout: the work is then done again.
inline std::optional<GoodputSearch> stored_goodput_search(const std::string& text) {
  return read_stored<GoodputSearch>(text, kSearchFormat);
}

}  // namespace epsim
