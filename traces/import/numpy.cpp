#include <fmt/format.h>

#include <numeric>

#include "traces/import/formats.h"
#include "traces/import/npy_array.h"
#include "traces/import/token_batch.h"

namespace epsim {

namespace {

bool named_npz(const std::filesystem::path& file) {
  return (file.extension() == ".gz" ? file.stem() : file).extension() == ".npz";
}

}  // namespace

bool recognises_numpy(const std::filesystem::path& file, std::string_view head) {
  return head.starts_with("\x93NUMPY") || (head.starts_with("PK") && named_npz(file));
}

void import_numpy(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  NpyArray array = named_npz(file) ? open_npz(file) : NpyArray(ByteInput(file));
  const std::vector<std::int64_t>& shape = array.shape();
  const bool has_layers = shape.size() == 3;
  if ((!has_layers && shape.size() != 2) || shape.back() < 1 || shape.back() > 65536 || shape[1] > 65536 ||
      shape[0] < 1 || shape[0] > INT32_MAX) {
    throw InputError({array.name(), 0, ""},
                     "the shape must be [token][layer][k] or [token][k], with at least a token.");
  }
  std::vector<int> layers(has_layers ? static_cast<std::size_t>(shape[1]) : 1);
  std::iota(layers.begin(), layers.end(), 0);
  const int k = static_cast<int>(shape.back());
  const TraceInfo info = imported_info(file, "numpy", options, layers, 0, k);
  if (info.top_k != k) {
    throw InputError({array.name(), 0, "top_k"}, fmt::format("a choice has {} experts, not {}.", k, info.top_k));
  }
  sink.begin(info, 1);
  TokenBatch batch(info, sink);
  for (std::int64_t token = 0; token < shape[0]; ++token) {
    for (int i = 0; i < info.layers() * k; ++i) {
      const std::int64_t id = array.next();
      if (const char* wrong = batch.add(id)) {
        throw InputError({array.name(), 0, ""},
                         fmt::format("token {}, layer {}: expert {} {} ({}).", token, i / k, id, wrong, info.experts));
      }
    }
    batch.end_token(0, static_cast<std::int32_t>(token));
  }
  batch.flush();
}

}  // namespace epsim
