// Gathers tokens into blocks for a sink, checking every choice.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "traces/format/trace.h"

namespace epsim {

class TokenBatch {
 public:
  TokenBatch(const TraceInfo& info, TraceSink& sink) : info_(info), sink_(sink) {}

  // The next expert id of the next choice, in the order [token][layer][k]. Returns what is wrong with it, else "".
  std::string add(std::int64_t id) {
    const std::size_t slot = choices_.size() % static_cast<std::size_t>(info_.top_k);
    if (id < 0 || id >= info_.experts) {
      return fmt::format("expert {} is not one of 0 to {}.", id, info_.experts - 1);
    }
    for (std::size_t i = choices_.size() - slot; i < choices_.size(); ++i) {
      if (choices_[i] == id) {
        return fmt::format("expert {} occurs twice in one layer's choice of {} experts.", id, info_.top_k);
      }
    }
    choices_.push_back(static_cast<std::uint16_t>(id));
    return "";
  }
  // Ends a token; all its ids have been added.
  void end_token(std::int32_t sequence, std::int32_t position) {
    sequence_.push_back(sequence);
    position_.push_back(position);
    if (sequence_.size() == kTokens) {
      flush();
    }
  }
  void flush() {
    if (!sequence_.empty()) {
      sink_.tokens({choices_, {}, sequence_, position_});
      choices_.clear();
      sequence_.clear();
      position_.clear();
    }
  }

 private:
  static constexpr std::size_t kTokens = 4096;
  const TraceInfo& info_;
  TraceSink& sink_;
  std::vector<std::uint16_t> choices_;
  std::vector<std::int32_t> sequence_, position_;
};

}  // namespace epsim
