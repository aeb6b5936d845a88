#include "sim/reproduce/craft_store.h"

#include <nlohmann/json.hpp>

#include "sim/core/check.h"
#include "sim/report/goodput_store.h"
#include "sim/report/store_json.h"

namespace epsim {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 5;  // raised when the figures below change

// A structured binding names every member, so that this file does not compile when one is added and not stored.

Json json_of(const NearKnee& near) {
  const auto& [rate, itl_mean_s, decode_step_s, balancedness, part_share, kv_full_share, extrapolated_share] = near;
  return Json::array({rate, stored_number(itl_mean_s), stored_number(decode_step_s), balancedness, part_share,
                      kv_full_share, extrapolated_share});
}
NearKnee near_knee_in(const Json& json) {
  NearKnee out;
  out.rate = json.at(0);
  out.itl_mean_s = number_in(json.at(1));
  out.decode_step_s = number_in(json.at(2));
  out.balancedness = json.at(3);
  out.part_share = json.at(4);
  out.kv_full_share = json.at(5);
  out.extrapolated_share = json.at(6);
  return out;
}

}  // namespace

std::string stored_text(const PolicySearch& search) {
  EPSIM_CHECK(search.near_knee.size() == search.by_seed.size(), "every search has a run near its knee");
  Json out{{"searches", Json::array()}, {"near_knee", Json::array()}};
  for (const GoodputSearch& one : search.by_seed) {
    out["searches"].push_back(stored_json(one));
  }
  for (const NearKnee& one : search.near_knee) {
    out["near_knee"].push_back(json_of(one));
  }
  return store_text(kFormat, std::move(out));
}

std::optional<PolicySearch> stored_search(const std::string& text) {
  return read_stored(text, kFormat, [](const Json& json) {
    PolicySearch out;
    for (const Json& search : json.at("searches")) {
      out.by_seed.push_back(goodput_search_in(search));
      out.near_knee.push_back(near_knee_in(json.at("near_knee").at(out.near_knee.size())));
    }
    return out;
  });
}

std::string stored_text(const std::vector<FixedRate>& by_seed) {
  Json out{{"fixed", Json::array()}};
  for (const auto& [rate, ttft_mean_s] : by_seed) {
    out["fixed"].push_back({rate, stored_number(ttft_mean_s)});
  }
  return store_text(kFormat, std::move(out));
}

std::optional<std::vector<FixedRate>> stored_fixed(const std::string& text) {
  return read_stored(text, kFormat, [](const Json& json) {
    std::vector<FixedRate> out;
    for (const Json& run : json.at("fixed")) {
      out.push_back({run.at(0), number_in(run.at(1))});
    }
    return out;
  });
}

std::string stored_text(const std::vector<Saturated>& by_seed) {
  Json out{{"saturated", Json::array()}};
  for (const auto& [kv_wait_share, exchange_share] : by_seed) {
    out["saturated"].push_back({kv_wait_share, exchange_share});
  }
  return store_text(kFormat, std::move(out));
}

std::optional<std::vector<Saturated>> stored_saturated(const std::string& text) {
  return read_stored(text, kFormat, [](const Json& json) {
    std::vector<Saturated> out;
    for (const Json& run : json.at("saturated")) {
      out.push_back({run.at(0), run.at(1)});
    }
    return out;
  });
}

}  // namespace epsim
