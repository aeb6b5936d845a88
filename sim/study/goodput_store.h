// A finished search as JSON, for the folders that keep searches from one run of the program to the next. Every number
// reads back as it was.
#pragma once

#include <optional>
#include <string>

#include "sim/study/goodput_result.h"
#include "sim/study/store_json.h"

namespace epsim {

template <Is<Knee> T>
auto members(T& x) {
  auto& [k, rate, ttft_s, limit, bracket_share, interpolated, steady] = x;
  return std::tie(k, rate, ttft_s, limit, bracket_share, interpolated, steady);
}
template <Is<Summary> T>
auto members(T& x) {
  auto& [count, mean, p50, p90, p95, p99, max] = x;
  return std::tie(count, mean, p50, p90, p95, p99, max);
}
template <Is<SloTermScore> T>
auto members(T& x) {
  auto& [value, allowed, half_width] = x;
  return std::tie(value, allowed, half_width);
}
template <Is<SloScore> T>
auto members(T& x) {
  auto& [attainment, excess, excess_half_width, limit, holds, decided, terms] = x;
  return std::tie(attainment, excess, excess_half_width, limit, holds, decided, terms);
}
template <Is<SloFinding> T>
auto members(T& x) {
  auto& [holds, rate, low, high, limit] = x;
  return std::tie(holds, rate, low, high, limit);
}
template <Is<LoadPoint> T>
auto members(T& x) {
  auto& [offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, slo, stable, enough_requests,
         requests, measured_requests, steps, fingerprint, backlog] = x;
  return std::tie(offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, slo, stable,
                  enough_requests, requests, measured_requests, steps, fingerprint, backlog);
}
template <Is<GoodputSearch> T>
auto members(T& x) {
  auto& [policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve, from_backlog,
         kv_lost_share, kv_tokens_per_rank] = x;
  return std::tie(policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve, from_backlog,
                  kv_lost_share, kv_tokens_per_rank);
}

inline constexpr int kSearchFormat = 4;  // of a search's file: raised when the figures above change

inline std::string stored_text(const GoodputSearch& search) { return store_text(kSearchFormat, search); }
// Nothing when the text is damaged or of another layout: the work is then done again.
inline std::optional<GoodputSearch> stored_goodput_search(const std::string& text) {
  return read_stored<GoodputSearch>(text, kSearchFormat);
}

}  // namespace epsim
