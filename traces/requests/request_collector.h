// From the rows of a recording to a checked trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/core/error.h"
#include "traces/format/request_table.h"
#include "traces/requests/request_options.h"

namespace epsim {

// The most requests that a trace may hold (1.6 GB of them), and the most prefix blocks (2 GB): more is a slip of the
// pen or a damaged file.
inline constexpr double kMaxRequests = 1e8;
inline constexpr std::size_t kMaxPrefixBlocks = std::size_t{1} << 28;

// Takes the rows of a recording in file order, checks them, and makes a trace of them as the options say.
class RequestCollector {
 public:
  // `block_tokens`: the tokens of a prefix block, 0 when the recording knows no prefix blocks.
  // `answers`: prefix blocks go on over a request's answer (RequestTable).
  explicit RequestCollector(const RequestOptions& options, int block_tokens = 0, bool answers = false);

  // `since_start` is the time since the recording began (its first row, for formats with wall-clock times). Throws
  // InputError at `place` when rows are out of order or tokens are missing or too many.
  void add(Ticks since_start, std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place,
           std::span<const std::int64_t> prefix_blocks = {});
  // Throws InputError naming `source` when no request is left.
  RequestTable finish(const std::string& source);

 private:
  bool usable(std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place);
  void take_prefix(std::int64_t input_tokens, std::int64_t output_tokens, const Request& kept,
                   std::span<const std::int64_t> blocks, const InputPlace& place);
  void check_order(Ticks since_start, const InputPlace& place);
  void spread_equal_times();
  void rescale();
  void describe_losses();

  RequestOptions options_;
  RequestTable table_;
  std::optional<Ticks> previous_;
  std::int64_t dropped_ = 0, clipped_ = 0, rows_ = 0;
};

// Keeps each request floor(factor) or ceil(factor) times, `factor` times on average; see RateMethod::kResample.
// Requests must be in order of time.
RequestTable resample_requests(const RequestTable& table, double factor, Seed seed);

}  // namespace epsim
