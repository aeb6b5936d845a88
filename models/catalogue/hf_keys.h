// The keys of Hugging Face configs that cost neither time nor memory.
#pragma once

#include <set>
#include <string_view>

namespace epsim {

// Keys that change neither weights (beyond 0.1 %), attention nor cache of a model of this model_type.
std::set<std::string_view> harmless_keys(std::string_view model_type);

}  // namespace epsim
