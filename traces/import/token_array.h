// Files of expert ids alone, [token][layer][k], and the table of the sequences that the tokens belong to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "traces/format/trace.h"

namespace epsim {

struct TokenArray {
  std::string name;  // of the file, for messages
  TraceInfo info;
  // Fills the ids of the next token, [layer][k]; false at the end.
  std::function<bool(std::span<std::int64_t> ids)> next;
  // CSV, one line per sequence in the file's order: first_row, num_tokens, optionally first_token_pos; further columns
  // are kept. Empty: all tokens are one sequence.
  std::filesystem::path sequences;
};

// Throws InputError: ids that are no choice of the model's experts, a table that does not fit the tokens, no tokens.
void import_token_array(const TokenArray& array, TraceSink& sink);

}  // namespace epsim
