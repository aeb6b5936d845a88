#include "sim/study/goodput_store.h"

#include <nlohmann/json.hpp>

#include "sim/study/store_json.h"

namespace epsim {
namespace {

using Stored = nlohmann::json;

constexpr int kStoreFormat = 2;  // raised when the figures below change

// A structured binding names every member, so that this file does not compile when one is added and not stored.

Stored json_of(const Knee& knee) {
  const auto& [k, rate, ttft_s, limit, bracket_share, interpolated, steady] = knee;
  return Stored::array(
      {k, rate, stored_number(ttft_s), static_cast<int>(limit), stored_number(bracket_share), interpolated, steady});
}
Knee knee_in(const Stored& json) {
  return {json.at(0),
          json.at(1),
          number_in(json.at(2)),
          static_cast<KneeLimit>(json.at(3).get<int>()),
          number_in(json.at(4)),
          json.at(5),
          json.at(6)};
}

Stored json_of(const Summary& summary) {
  const auto& [count, mean, p50, p90, p95, p99, max] = summary;
  return Stored::array({count, stored_number(mean), stored_number(p50), stored_number(p90), stored_number(p95),
                        stored_number(p99), stored_number(max)});
}
Summary summary_in(const Stored& json) {
  return {json.at(0),
          number_in(json.at(1)),
          number_in(json.at(2)),
          number_in(json.at(3)),
          number_in(json.at(4)),
          number_in(json.at(5)),
          number_in(json.at(6))};
}

Stored json_of(const SloScore& score) {
  const auto& [attainment, excess, excess_half_width, limit, holds, decided, terms] = score;
  return Stored::array({attainment, stored_number(excess), stored_number(excess_half_width), limit, holds, decided});
}
SloScore score_in(const Stored& json) {
  return {json.at(0), number_in(json.at(1)), number_in(json.at(2)), json.at(3), json.at(4), json.at(5)};
}

Stored json_of(const SloFinding& found) {
  const auto& [holds, rate, low, high, limit] = found;
  return Stored::array({holds, rate, low, high, limit});
}
SloFinding finding_in(const Stored& json) { return {json.at(0), json.at(1), json.at(2), json.at(3), json.at(4)}; }

Stored json_of(const LoadPoint& probe) {
  const auto& [offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, slo, stable, enough_requests,
               requests, measured_requests, steps, fingerprint, backlog] = probe;
  return Stored::array({offered, measured_offered, completed, json_of(ttft_s), json_of(tpot_s), json_of(e2e_s),
                        concurrency, json_of(slo), stable, enough_requests, requests, measured_requests, steps,
                        fingerprint, backlog});
}
LoadPoint load_point_in(const Stored& json) {
  return {json.at(0),
          json.at(1),
          json.at(2),
          summary_in(json.at(3)),
          summary_in(json.at(4)),
          summary_in(json.at(5)),
          json.at(6),
          score_in(json.at(7)),
          json.at(8),
          json.at(9),
          json.at(10),
          json.at(11),
          json.at(12),
          json.at(13),
          json.at(14)};
}

Stored json_of(const std::vector<LoadPoint>& probes) {
  Stored out = Stored::array();
  for (const LoadPoint& probe : probes) {
    out.push_back(json_of(probe));
  }
  return out;
}
std::vector<LoadPoint> load_points_in(const Stored& json) {
  std::vector<LoadPoint> out;
  for (const Stored& probe : json) {
    out.push_back(load_point_in(probe));
  }
  return out;
}

}  // namespace

Stored stored_json(const GoodputSearch& search) {
  const auto& [policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve, from_backlog,
               kv_lost_share, kv_tokens_per_rank] = search;
  Stored knees = Stored::array();
  for (const Knee& at : sensitivity) {
    knees.push_back(json_of(at));
  }
  return Stored::array({policy, seed_index, seed, idle_ttft_s, saturation, json_of(knee), json_of(best), knees,
                        json_of(slo), json_of(curve), json_of(from_backlog), kv_lost_share, kv_tokens_per_rank});
}

GoodputSearch goodput_search_in(const Stored& json) {
  GoodputSearch out;
  out.policy = json.at(0);
  out.seed_index = json.at(1);
  out.seed = json.at(2);
  out.idle_ttft_s = json.at(3);
  out.saturation = json.at(4);
  out.knee = knee_in(json.at(5));
  out.best = load_point_in(json.at(6));
  for (const Stored& knee : json.at(7)) {
    out.sensitivity.push_back(knee_in(knee));
  }
  out.slo = finding_in(json.at(8));
  out.curve = load_points_in(json.at(9));
  out.from_backlog = load_points_in(json.at(10));
  out.kv_lost_share = json.at(11);
  out.kv_tokens_per_rank = json.at(12);
  return out;
}

std::string stored_text(const GoodputSearch& search) {
  return store_text(kStoreFormat, {{"search", stored_json(search)}});
}

std::optional<GoodputSearch> stored_goodput_search(const std::string& text) {
  return read_stored(text, kStoreFormat, [](const Stored& json) { return goodput_search_in(json.at("search")); });
}

}  // namespace epsim
