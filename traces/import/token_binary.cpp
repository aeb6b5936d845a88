#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/refuse.h"
#include "traces/format/csv.h"
#include "traces/import/formats.h"
#include "traces/import/token_array.h"

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
  std::vector<int> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

bool recognises_token_binary(const std::filesystem::path& file, std::string_view head) {
  return shape_in_name(file.filename().string()).first > 0 && head.find("NUMPY") == std::string_view::npos;
}

void import_token_binary(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  const auto [named_layers, named_k] = shape_in_name(file.filename().string());
  const int layers = options.layers > 0 ? options.layers : named_layers;
  refuse_if(layers == 0, {file.string(), 0, "layers"},
            "raw bytes do not say how many layers they have; state it (--layers).");
  const TraceInfo info = imported_info(file, "token_binary", options, counting(layers), 0, named_k);
  refuse_if(info.experts > 256, {file.string(), 0, "experts"}, "a byte holds the ids of at most 256 experts.");
  const std::filesystem::path beside = file.parent_path() / "sequences.csv";
  const bool stated = !options.sequences.empty();
  ByteInput input(file);
  std::string token(static_cast<std::size_t>(info.layers()) * info.top_k, '\0');
  const auto next = [&](std::span<std::int64_t> ids) {
    const std::size_t got = input.read(token.data(), token.size());
    if (got > 0 && got < token.size()) {
      input.fail("the file ends within a token; its size is not a multiple of layers x top-k bytes.");
    }
    std::transform(token.begin(), token.end(), ids.begin(), [](char id) { return static_cast<unsigned char>(id); });
    return got > 0;
  };
  const bool listed = stated || std::filesystem::exists(beside);
  import_token_array({file.string(), info, next, stated ? options.sequences : listed ? beside : ""}, sink);
}

}  // namespace epsim
