// What a capacity study is asked: options by name, and a file whose keys have the same names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/study/capacity.h"
#include "sim/study/capacity_cost.h"
#include "sim/verbs/capacity_given.h"

namespace epsim {

inline constexpr StoreKind kCapacityStore{"capacity study", "study.json", "answers"};

struct CapacityRequest {
  CapacityQuestion question;
  CapacityPlan plan;      // without its answer
  double asked_rate = 0;  // before growth
  double growth = 0;      // share
  bool quick = false;
};

// `words` go before the keys of `file`. Throws InputError.
CapacityRequest read_capacity_request(const CapacityWords& words, const std::optional<Config>& file);

// The study's manifest: everything that decides results. Prices and budgets do not: they come afterwards.
std::string capacity_manifest(const CapacityRequest& request);

// The answer. Throws StudyInterrupted, and InputError where no design can be read.
CapacityPlan plan_capacity(const CapacityRequest& request, const CapacityControl& control);

}  // namespace epsim
