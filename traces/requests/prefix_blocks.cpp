#include "traces/requests/prefix_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "sim/core/error.h"

namespace epsim {
namespace {

constexpr std::int32_t kRoot = -1;  // before the first block

class Chain {
 public:
  // The dense number of an id that follows `before`; kBroken when the id is known to follow another.
  std::int32_t number(std::int64_t id, std::int32_t before) {
    const auto [entry, is_new] = numbers_.try_emplace(id, static_cast<std::int32_t>(before_.size()));
    if (is_new) {
      before_.push_back(before);
    }
    return before_[entry->second] == before ? entry->second : kBroken;
  }
  std::int32_t size() const { return static_cast<std::int32_t>(before_.size()); }

  static constexpr std::int32_t kBroken = -2;

 private:
  std::unordered_map<std::int64_t, std::int32_t> numbers_;
  std::vector<std::int32_t> before_;
};

}  // namespace

PrefixBlocks chain_prefix_blocks(const RequestTable& table) {
  PrefixBlocks out;
  if (table.block_tokens == 0) {
    return out;
  }
  out.block_tokens = table.block_tokens;
  out.start.reserve(table.prefix_start.size());
  out.start.push_back(0);
  Chain chain;
  for (std::size_t i = 0; i < table.trace.requests.size(); ++i) {
    const auto first = static_cast<std::size_t>(table.prefix_start[i]);
    const auto named = static_cast<std::size_t>(table.prefix_start[i + 1]) - first;
    const Request& request = table.trace.requests[i];
    const std::int64_t kept = std::int64_t{request.input_tokens} + (table.answers ? request.output_tokens - 1 : 0);
    const auto filled = static_cast<std::size_t>(kept / table.block_tokens);
    std::int32_t before = kRoot;
    for (std::size_t b = 0; b < std::min(named, filled); ++b) {
      const std::int64_t id = table.prefix_blocks[first + b];
      const std::int32_t number = chain.number(id, before);
      if (number == Chain::kBroken) {
        throw InputError({table.trace.source, 0, ""},
                         fmt::format("request {}: prefix block {} has id {}, which follows another block elsewhere. "
                                     "An id names a block with all before it, so that it always follows the same one.",
                                     i + 1, b + 1, id));
      }
      out.ids.push_back(number);
      before = number;
    }
    out.start.push_back(std::ssize(out.ids));
  }
  out.distinct = chain.size();
  return out;
}

}  // namespace epsim
