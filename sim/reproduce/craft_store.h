// Finished work of a reproduction, kept from one run of the program to the next.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/reproduce/craft_evidence.h"

namespace epsim {

// Where finished work is kept, by name ("ke8-cra8"). Both are called from several threads, each for names of its own.
class CraftStore {
 public:
  virtual ~CraftStore() = default;
  // The text that was saved last under this name; nothing when there is none.
  virtual std::optional<std::string> load(const std::string& name) = 0;
  // Whole or not at all. Throws RunFailed.
  virtual void save(const std::string& name, const std::string& text) = 0;
};

// As JSON; every number reads back as it was. The readers give nothing when the text is damaged or of another layout:
// the work is then done again.
std::string stored_text(const PolicySearch& search);
std::optional<PolicySearch> stored_search(const std::string& text);
std::string stored_text(const std::vector<FixedRate>& by_seed);
std::optional<std::vector<FixedRate>> stored_fixed(const std::string& text);
std::string stored_text(const std::vector<Saturated>& by_seed);
std::optional<std::vector<Saturated>> stored_saturated(const std::string& text);

}  // namespace epsim
