// Every key of a scenario, part 2: requests and expert loads. See scenario_keys.h for the columns.
#include "sim/scenario/scenario_keys.h"

namespace epsim {
namespace {

using V = ValueType;

constexpr PlainKey kInputKeys[] = {
    {"requests", "", V::kSection, Bound::kNotNegative, "required", "", "What arrives, when, and how long it is."},
    {"loads", "", V::kSection, Bound::kNotNegative, "required", "", "How tokens distribute over experts in the run."},
    {"plan_loads", "", V::kSection, Bound::kNotNegative, "required", "",
     "The loads that policies plan on; keys as in `loads`."},
};

}  // namespace

std::span<const PlainKey> input_keys() { return kInputKeys; }

}  // namespace epsim
