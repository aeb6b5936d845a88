#include "sim/study/goodput_store.h"

#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>
#include <vector>

#include "sim/study/store_json.h"

namespace epsim {
namespace {

using Stored = nlohmann::json;

constexpr int kStoreFormat = 2;  // raised when the figures below change

// The members of `x` that a file keeps, in its order. A structured binding names every member, so that this file does
// not compile when one is added and not stored.
template <class T>
auto members(T& x) {
  using Type = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Type, Knee>) {
    auto& [k, rate, ttft_s, limit, bracket_share, interpolated, steady] = x;
    return std::tie(k, rate, ttft_s, limit, bracket_share, interpolated, steady);
  } else if constexpr (std::is_same_v<Type, Summary>) {
    auto& [count, mean, p50, p90, p95, p99, max] = x;
    return std::tie(count, mean, p50, p90, p95, p99, max);
  } else if constexpr (std::is_same_v<Type, SloScore>) {
    auto& [attainment, excess, excess_half_width, limit, holds, decided, terms] = x;
    return std::tie(attainment, excess, excess_half_width, limit, holds, decided);
  } else if constexpr (std::is_same_v<Type, SloFinding>) {
    auto& [holds, rate, low, high, limit] = x;
    return std::tie(holds, rate, low, high, limit);
  } else if constexpr (std::is_same_v<Type, LoadPoint>) {
    auto& [offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, slo, stable, enough_requests,
           requests, measured_requests, steps, fingerprint, backlog] = x;
    return std::tie(offered, measured_offered, completed, ttft_s, tpot_s, e2e_s, concurrency, slo, stable,
                    enough_requests, requests, measured_requests, steps, fingerprint, backlog);
  } else {
    static_assert(std::is_same_v<Type, GoodputSearch>);
    auto& [policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve, from_backlog,
           kv_lost_share, kv_tokens_per_rank] = x;
    return std::tie(policy, seed_index, seed, idle_ttft_s, saturation, knee, best, sensitivity, slo, curve,
                    from_backlog, kv_lost_share, kv_tokens_per_rank);
  }
}

template <class T>
Stored json_of(const std::vector<T>& values);
template <class T>
Stored json_of(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return stored_number(value);
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    return std::apply([](const auto&... each) { return Stored::array({json_of(each)...}); }, members(value));
  }
}
template <class T>
Stored json_of(const std::vector<T>& values) {
  Stored out = Stored::array();
  for (const T& value : values) {
    out.push_back(json_of(value));
  }
  return out;
}

template <class T>
void read(const Stored& json, std::vector<T>& out);
template <class T>
void read(const Stored& json, T& out) {
  if constexpr (std::is_floating_point_v<T>) {
    out = number_in(json);
  } else if constexpr (std::is_enum_v<T>) {
    out = static_cast<T>(json.get<int>());
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    out = json.get<T>();
  } else {
    std::size_t at = 0;
    std::apply([&](auto&... each) { (read(json.at(at++), each), ...); }, members(out));
  }
}
template <class T>
void read(const Stored& json, std::vector<T>& out) {
  for (const Stored& each : json) {
    read(each, out.emplace_back());
  }
}

}  // namespace

Stored stored_json(const GoodputSearch& search) { return json_of(search); }

GoodputSearch goodput_search_in(const Stored& json) {
  GoodputSearch out;
  read(json, out);
  return out;
}

std::string stored_text(const GoodputSearch& search) {
  return store_text(kStoreFormat, {{"search", stored_json(search)}});
}

std::optional<GoodputSearch> stored_goodput_search(const std::string& text) {
  return read_stored(text, kStoreFormat, [](const Stored& json) { return goodput_search_in(json.at("search")); });
}

}  // namespace epsim
