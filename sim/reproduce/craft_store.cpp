#include "sim/reproduce/craft_store.h"

#include <nlohmann/json.hpp>

#include "sim/study/goodput_store.h"
#include "sim/study/store_json.h"

namespace epsim {
namespace {

using Json = nlohmann::json;

constexpr int kStoreFormat = 7;  // raised when the figures below change

// A structured binding names every member, so that this file does not compile when one is added and not stored.

Json json_of(const SearchedPolicy& searched) {
  const auto& [rate, itl_mean_s, decode_step_s, balancedness, part_share, kv_full_share, extrapolated_share] =
      searched.near_knee;
  return {{"search", stored_json(searched.search)},
          {"near_knee", Json::array({rate, stored_number(itl_mean_s), stored_number(decode_step_s), balancedness,
                                     part_share, kv_full_share, extrapolated_share})}};
}
void read(const Json& json, SearchedPolicy& out) {
  const Json& near = json.at("near_knee");
  out.search = goodput_search_in(json.at("search"));
  out.near_knee = {near.at(0), number_in(near.at(1)), number_in(near.at(2)), near.at(3), near.at(4), near.at(5),
                   near.at(6)};
}

Json json_of(const FixedRate& run) {
  const auto& [rate, ttft_mean_s] = run;
  return {rate, stored_number(ttft_mean_s)};
}
void read(const Json& json, FixedRate& out) { out = {json.at(0), number_in(json.at(1))}; }

Json json_of(const Saturated& run) {
  const auto& [kv_wait_share, exchange_share] = run;
  return {kv_wait_share, exchange_share};
}
void read(const Json& json, Saturated& out) { out = {json.at(0), json.at(1)}; }

}  // namespace

template <class Figures>
std::string stored_text(const std::vector<Figures>& by_seed) {
  Json out{{"by_seed", Json::array()}};
  for (const Figures& one : by_seed) {
    out["by_seed"].push_back(json_of(one));
  }
  return store_text(kStoreFormat, std::move(out));
}

template <class Figures>
std::optional<std::vector<Figures>> stored_by_seed(const std::string& text) {
  return read_stored(text, kStoreFormat, [](const Json& json) {
    std::vector<Figures> out;
    for (const Json& one : json.at("by_seed")) {
      read(one, out.emplace_back());
    }
    return out;
  });
}

template std::string stored_text(const std::vector<SearchedPolicy>&);
template std::string stored_text(const std::vector<FixedRate>&);
template std::string stored_text(const std::vector<Saturated>&);
template std::optional<std::vector<SearchedPolicy>> stored_by_seed(const std::string&);
template std::optional<std::vector<FixedRate>> stored_by_seed(const std::string&);
template std::optional<std::vector<Saturated>> stored_by_seed(const std::string&);

}  // namespace epsim
