#include <fmt/format.h>

#include <numeric>

#include "traces/format/csv.h"
#include "traces/format/typed_table.h"
#include "traces/import/formats.h"
#include "traces/import/token_batch.h"

namespace epsim {

namespace {

// layers and k from a name like routing_u8_T24x4.bin.gz; zeros when it states none.
std::pair<int, int> shape_in_name(const std::string& name) {
  const std::size_t mark = name.find("_T");
  const std::size_t cross = mark == std::string::npos ? mark : name.find('x', mark);
  if (cross == std::string::npos) {
    return {0, 0};
  }
  const std::size_t end = name.find_first_not_of("0123456789", cross + 1);
  const auto layers = parse_integer(std::string_view(name).substr(mark + 2, cross - mark - 2));
  const auto k =
      parse_integer(std::string_view(name).substr(cross + 1, end == std::string::npos ? end : end - cross - 1));
  const bool sane = layers && k && *layers > 0 && *layers < 4096 && *k > 0 && *k < 256;
  return sane ? std::pair(static_cast<int>(*layers), static_cast<int>(*k)) : std::pair(0, 0);
}

std::vector<int> counting(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

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
  if (first == nullptr || count == nullptr) {
    throw InputError({file.string(), 1, ""}, "the columns first_row and num_tokens, whole numbers, are needed.");
  }
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

// Reads the ids to the end and returns how many tokens there were.
std::int64_t read_tokens(ByteInput& input, const TraceInfo& info, Cursor cursor, TokenBatch& batch) {
  std::string token(static_cast<std::size_t>(info.layers()) * static_cast<std::size_t>(info.top_k), '\0');
  std::int64_t at = 0;
  const auto refuse = [&](const std::string& problem) {
    throw InputError({input.name(), 0, ""}, fmt::format("token {}: {}", at, problem));
  };
  for (std::size_t got; (got = input.read(token.data(), token.size())) > 0; ++at) {
    if (got < token.size()) {
      refuse("the file ends within it; its size is not a multiple of layers x top-k bytes.");
    }
    for (const char byte : token) {
      if (const char* wrong = batch.add(static_cast<unsigned char>(byte))) {
        refuse(fmt::format("expert {} {} ({}).", static_cast<unsigned char>(byte), wrong, info.experts));
      }
    }
    if (!cursor.move_to(at)) {
      refuse("the table of sequences ends before it.");
    }
    if (at >= INT32_MAX) {
      refuse("a file holds at most 2^31 tokens.");
    }
    batch.end_token(cursor.sequence(), cursor.position());
  }
  batch.flush();
  return at;
}

}  // namespace

bool recognises_token_binary(const std::filesystem::path& file, std::string_view head) {
  return shape_in_name(file.filename().string()).first > 0 && head.find("NUMPY") == std::string_view::npos;
}

void import_token_binary(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  const auto [named_layers, named_k] = shape_in_name(file.filename().string());
  const int layers = options.layers > 0 ? options.layers : named_layers;
  if (layers == 0) {
    throw InputError({file.string(), 0, "layers"}, "raw bytes do not say how many layers they have; state it.");
  }
  const TraceInfo info = imported_info(file, "token_binary", options, counting(layers), 0, named_k);
  if (info.experts > 256) {
    throw InputError({file.string(), 0, "experts"}, "a byte holds the ids of at most 256 experts.");
  }
  const std::filesystem::path beside = file.parent_path() / "sequences.csv";
  const bool stated = !options.sequences.empty();
  Sequences sequences;
  if (stated || std::filesystem::exists(beside)) {
    sequences = read_sequences(stated ? options.sequences : beside);
  }
  sink.begin(info, 1);
  TokenBatch batch(info, sink);
  ByteInput input(file);
  const std::int64_t tokens = read_tokens(input, info, Cursor(sequences), batch);
  if (tokens == 0 || (!sequences.end.empty() && tokens != sequences.end.back())) {
    throw InputError({file.string(), 0, ""}, fmt::format("the file holds {} tokens, its table of sequences {}.", tokens,
                                                         sequences.end.empty() ? 0 : sequences.end.back()));
  }
  if (!sequences.table.columns.empty()) {
    sink.table("sequences", sequences.table);
  }
}

}  // namespace epsim
