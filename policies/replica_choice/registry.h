// All replica choices by name. To add one: its .cpp, its line in the table of registry.cpp, its line of CMake.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "policies/named.h"
#include "policies/replica_choice.h"
#include "sim/core/config.h"

namespace epsim {

using ReplicaChoiceEntry = NamedPolicy<ReplicaChoice>;

// In the order in which they are listed to users.
std::span<const ReplicaChoiceEntry> replica_choices();

// The choice `name` with its options read from `options`; the caller calls finish() on them. Throws InputError for an
// unknown name (the message lists all, the nearest first) and for options that are out of range.
std::unique_ptr<ReplicaChoice> make_replica_choice(const std::string& name, ConfigReader& options);

}  // namespace epsim
