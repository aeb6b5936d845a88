#include "traces/import/token_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/format/typed_table.h"
#include "traces/import/token_batch.h"

namespace epsim {

namespace {

constexpr std::size_t kMostIds = std::size_t{1} << 20;  // of one token

// Where each sequence ends in the file, and the position of its first token.
struct Sequences {
  Table table;
  std::vector<std::int64_t> end, first_position;
};

Sequences read_sequences(const std::filesystem::path& file) {
  Sequences out;
  out.table = read_typed_table(file);
  const auto* first = out.table.numbers("first_row");
  const auto* count = out.table.numbers("num_tokens");
  const auto* position = out.table.numbers("first_token_pos");
  refuse_if(first == nullptr || count == nullptr, {file.string(), 1, ""},
            "the columns first_row and num_tokens, whole numbers, are needed.");
  std::int64_t next = 0;
  for (std::size_t i = 0; i < first->size(); ++i) {
    const std::int64_t start = position == nullptr ? 0 : (*position)[i];
    if ((*first)[i] != next || (*count)[i] < 0 || (*count)[i] > INT32_MAX || start < 0 || start > INT32_MAX / 2) {
      throw InputError({file.string(), static_cast<int>(i) + 2, "first_row"},
                       "sequences must follow one another in the file without gaps, and lie within 2^31.");
    }
    next += (*count)[i];
    out.end.push_back(next);
    out.first_position.push_back(start);
  }
  return out;
}

// Walks along the sequences, token by token. Without a table all tokens are of one sequence.
class Cursor {
 public:
  explicit Cursor(const Sequences& sequences) : s_(sequences) {}
  // Moves to a token, which never lies before the last one; false beyond the last sequence.
  bool move_to(std::int64_t token) {
    if (s_.end.empty()) {
      position_ = token;
      return true;
    }
    while (sequence_ < s_.end.size() && token >= s_.end[sequence_]) {
      ++sequence_;
    }
    if (sequence_ == s_.end.size()) {
      return false;
    }
    position_ = token - (sequence_ == 0 ? 0 : s_.end[sequence_ - 1]) + s_.first_position[sequence_];
    return true;
  }
  std::int32_t sequence() const { return static_cast<std::int32_t>(sequence_); }
  std::int32_t position() const { return static_cast<std::int32_t>(position_); }

 private:
  const Sequences& s_;
  std::size_t sequence_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace

void import_token_array(const TokenArray& array, TraceSink& sink) {
  const Sequences sequences = array.sequences.empty() ? Sequences() : read_sequences(array.sequences);
  const TraceInfo& info = array.info;
  const std::size_t width = static_cast<std::size_t>(info.layers()) * info.top_k;
  refuse_if(width > kMostIds, {array.name, 0, ""}, fmt::format("a token has {} ids; at most 2^20 are read.", width));
  sink.begin(info, 1);
  TokenBatch batch(info, sink);
  Cursor cursor(sequences);
  std::vector<std::int64_t> ids(width);
  std::int64_t token = 0;
  const auto refuse = [&](const std::string& problem) {
    throw InputError({array.name, 0, ""}, fmt::format("token {}{}", token, problem));
  };
  for (; array.next(ids); ++token) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (const std::string wrong = batch.add(ids[i]); !wrong.empty()) {
        const std::size_t layer = i / info.top_k;
        const auto choice = std::span(ids).subspan(layer * info.top_k, info.top_k);
        const bool zeros = std::ranges::all_of(choice, [](std::int64_t id) { return id == 0; });
        refuse(fmt::format(", layer {}: {}{}", layer, wrong,
                           zeros ? " vLLM writes zeros for layers without experts: slice them off, as in "
                                   "numpy.save(\"sparse.npy\", ids[:, 3:]) for DeepSeek-R1."
                                 : ""));
      }
    }
    if (!cursor.move_to(token)) {
      refuse(": the table of sequences ends before it.");
    }
    if (token >= INT32_MAX) {
      refuse(": a file holds at most 2^31 tokens.");
    }
    batch.end_token(cursor.sequence(), cursor.position());
  }
  batch.flush();
  const std::int64_t listed = sequences.end.empty() ? 0 : sequences.end.back();
  refuse_if(token == 0 || (!sequences.end.empty() && token != listed), {array.name, 0, ""},
            fmt::format("the file holds {} tokens, its table of sequences {}.", token, listed));
  if (!sequences.table.columns.empty()) {
    sink.table("sequences", sequences.table);
  }
}

}  // namespace epsim
