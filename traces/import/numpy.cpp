#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/error.h"
#include "traces/import/formats.h"
#include "traces/import/npy_array.h"
#include "traces/import/token_array.h"

namespace epsim {

bool recognises_numpy(const std::filesystem::path& file, std::string_view head) {
  return head.starts_with("\x93NUMPY") || (head.starts_with("PK") && is_npz(file));
}

void import_numpy(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  NpyArray array = open_npy(file);
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
  const auto next = [&, left = shape[0]](std::span<std::int64_t> ids) mutable {
    std::generate(ids.begin(), left > 0 ? ids.end() : ids.begin(), [&] { return array.next(); });
    return left-- > 0;
  };
  import_token_array({array.name(), info, next, options.sequences}, sink);
}

}  // namespace epsim
