// The folder in which a goodput study keeps its finished searches.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/study/goodput_result.h"
#include "sim/study/job_store.h"

namespace epsim {

inline constexpr StoreKind kGoodputStore{"goodput study", "study.json", "searches"};

// study.json: the inputs. The folder continues with no others. `assignments` are those of --set.
std::string goodput_manifest(const std::vector<Scenario>& by_seed, const GoodputOptions& options,
                             const std::vector<std::string>& assignments);

}  // namespace epsim
