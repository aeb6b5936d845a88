// What can be asked of every recorded request trace, whatever its format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/core/config.h"
#include "sim/domain/request_trace.h"
#include "traces/text_input.h"

namespace epsim {

// Keys of a recorded trace's section:
//   slice_start, slice_length   keep arrivals in [start, start + length) of the recording; time 0 becomes its start
//   time_scale                  arrival gaps are divided by it: 2 = twice the request rate (default 1)
//   rate                        scale the gaps so that (requests - 1) / (last - first arrival) is this; not with
//   time_scale max_input_tokens, max_output_tokens   longer requests are clipped to this drop_zero_tokens false
//   (default): a request without input or output tokens is an error naming its line equal_timestamps            error |
//   keep: what two requests that arrive at the same instant are
struct RequestOptions {
  Ticks slice_start{0};
  std::optional<Ticks> slice_length;
  double time_scale = 1.0;
  std::optional<RequestsPerSecond> rate;
  std::int32_t max_input_tokens = 0, max_output_tokens = 0;  // 0 = as recorded
  bool drop_zero_tokens = false;
  bool keep_equal_timestamps = false;
};

// `keep_equal` is the format's default for equal_timestamps: keep where its clock is coarse.
RequestOptions read_request_options(ConfigReader& in, bool keep_equal);

// Takes the rows of a recording in file order, checks them, and makes a trace of them as the options say.
class RequestCollector {
 public:
  explicit RequestCollector(const RequestOptions& options) : options_(options) {}

  // `since_start` is the time since the recording began (its first row, for formats with wall-clock times). Throws
  // InputError at `place` when rows are out of order or tokens are missing or too many.
  void add(Ticks since_start, std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place);
  // Throws InputError naming `source` when no request is left.
  RequestTrace finish(const std::string& source);

 private:
  bool usable(std::int64_t input_tokens, std::int64_t output_tokens, const InputPlace& place);
  void rescale();

  RequestOptions options_;
  RequestTrace trace_;
  std::optional<Ticks> previous_;
  std::int64_t dropped_ = 0, clipped_ = 0, rows_ = 0;
};

}  // namespace epsim
