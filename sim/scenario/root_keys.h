// The keys of a scenario's document itself: its name, and the sections that other readers take from there.
#pragma once

#include "policies/registry.h"
#include "sim/core/key.h"

namespace epsim {

inline constexpr KeyTable kRootKeys({
    {"name", key::text(), key::kRequired, "Name of the scenario; the results folder is named after it."},
    {"extends", key::path(), key::kNone,
     "Another scenario file, relative to this one: gives the keys that this file lacks, but not to a section of "
     "another kind."},
    {"seed", key::whole(), key::is(0), "Seed of every random stream: arrivals, lengths, routing."},
    {"policy", key::name_or_other(policy_kinds, "epsim list policies"), key::is("base"),
     "Policy that `epsim run` uses: a name, a label of `policies`, or an entry in place."},
    {"policies", key::section(), key::kNone, "Policies with their options, by label."},
    {"model", key::section(), key::kRequired, "The model that is served."},
    {"cluster", key::section(), key::kRequired, "The nodes of one instance and the network between them."},
    {"parallelism", key::section(), key::kNone, "How one instance divides the model over its GPUs."},
    {"memory", key::section(), key::kNone, "GPU memory for weights and KV cache."},
    {"network", key::section(), key::kNone, "How traffic is priced."},
    {"dispatch", key::section(), key::kNone, "How tokens reach their experts and return."},
    {"serving", key::section(), key::kNone, "The serving engine and its settings."},
    {"deployment", key::section(), key::kNone, "Several instances, or prefill and decode on separate ones."},
    {"execution", key::section(), key::kNone, "How the parts of a step overlap."},
    {"faults", key::sections(), key::kNone, "Hardware that slows down or is lost during the run."},
    {"protocol", key::section(), key::kNone, "How `epsim goodput` asks a rate."},
    {"requests", key::section(), key::kRequired, "What arrives, when, and how long it is."},
    {"loads", key::section(), key::by("required; a dense model has none"),
     "How tokens distribute over experts in the run."},
    {"plan_loads", key::section(), key::by("required; a dense model has none"),
     "The loads that policies plan on; keys as in `loads`."},
});

}  // namespace epsim
