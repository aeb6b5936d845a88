// What a user states beside a recording, and what importers share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "traces/format/trace.h"

namespace epsim {

// What a file does not say about itself. Zero, or empty: not stated.
struct ImportOptions {
  std::string model{}, source{}, licence{};
  int model_layers = 0;
  int experts = 0;
  int top_k = 0;
  int layers = 0;                     // recorded layers, for formats without a shape
  std::vector<int> layer_numbers{};   // model layer of each recorded one; default: what the file says, else 0, 1, ...
  std::filesystem::path sequences{};  // of token_binary (default: sequences.csv beside it) and numpy
  int usual_top_k = 0;                // of the model that is named, where neither `top_k` nor the file says it
};

// The header of an imported trace: what the file says, completed and overruled by the options. Throws InputError,
// naming the option to state, when the number of experts or top-k is known from neither.
TraceInfo imported_info(const std::filesystem::path& file, const std::string& format, const ImportOptions& options,
                        const std::vector<int>& layer_numbers, int experts, int top_k);

// Tokens that made these counts: assignments of one layer and source over top-k.
std::int64_t tokens_of(std::span<const double> counts, int top_k);

// What is wrong with counts that are all 0.
inline constexpr const char* kEveryCountZero = "every count is 0; a recording has counts above 0.";

// Columns named e0, e1, ... or 0, 1, ... in order; empty unless they are the last of the header.
std::vector<std::size_t> expert_columns(const std::vector<std::string>& header);

}  // namespace epsim
