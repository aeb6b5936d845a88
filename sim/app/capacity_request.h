// What `epsim capacity` is asked: from options, and from a file whose keys have the same names.
#pragma once

#include <boost/program_options.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/study/capacity.h"
#include "sim/study/capacity_cost.h"

namespace epsim::app {

struct CapacityRequest {
  std::string name;
  CapacityQuestion question;
  CapacityPrices prices;
  double asked_rate = 0;                         // before growth
  double growth = 0;                             // share
  double most_usd_per_hour = 0, most_watts = 0;  // 0: any
  std::string demand;                            // in words
  bool quick = false;
};

void add_capacity_options(boost::program_options::options_description& options);
// Throws InputError.
CapacityRequest read_capacity_request(const boost::program_options::variables_map& values);

// Everything that decides results, for the study's manifest. Prices and budgets do not: they come afterwards.
nlohmann::ordered_json capacity_request_json(const CapacityRequest& request);

}  // namespace epsim::app
