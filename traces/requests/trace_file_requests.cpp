// The requests that a trace file carries, and the options of recorded traces on them.
#include <fmt/format.h>

#include "sim/core/refuse.h"
#include "traces/format/trace_file.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"

namespace epsim {

namespace {

RequestTable make_trace_file_requests(ConfigReader& in, Seed seed) {
  const std::filesystem::path path = in.path(kRecordingKeys["path"]);
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  const TraceFile file(path);
  refuse_if(!file.has_requests(), {file.name(), 0, "/requests"}, "this trace file holds no requests.");
  const RequestTable stored = file.requests();
  RequestCollector collector(options, stored.block_tokens, stored.answers);
  for (std::size_t i = 0; i < stored.trace.requests.size(); ++i) {
    const Request& r = stored.trace.requests[i];
    std::span<const std::int64_t> blocks;
    if (stored.block_tokens > 0) {
      const auto first = static_cast<std::size_t>(stored.prefix_start[i]);
      blocks =
          std::span(stored.prefix_blocks).subspan(first, static_cast<std::size_t>(stored.prefix_start[i + 1]) - first);
    }
    collector.add(r.arrival, r.input_tokens, r.output_tokens, {file.name(), 0, fmt::format("/requests, row {}", i + 1)},
                  blocks);
  }
  return collector.finish(file.name());
}

}  // namespace

extern const RequestSource kTraceFileSource{"trace_file", "requests in a trace file of epsim's own (HDF5)",
                                            make_trace_file_requests, kRecordingKeys};

}  // namespace epsim
