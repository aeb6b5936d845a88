// Azure's LLM inference traces (github.com/Azure/AzurePublicDataset, 2023 and 2024): one row per request.
#include <fmt/format.h>

#include "traces/format/csv.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"
#include "traces/requests/timestamps.h"

namespace epsim {

RequestTable read_azure_csv(ByteInput& input, const RequestOptions& options) {
  CsvReader rows(input);
  const std::size_t time = rows.column("TIMESTAMP");
  const std::size_t context = rows.column("ContextTokens"), generated = rows.column("GeneratedTokens");
  RequestCollector collector(options);
  const auto tokens = [&](std::size_t column) {
    const std::int64_t count = rows.integer(column);
    if (count < 0) {
      rows.fail(column, fmt::format("{} tokens; a number of tokens is 0 or more.", count));
    }
    return count;
  };
  std::optional<std::chrono::nanoseconds> first;
  while (rows.next()) {
    const auto at = parse_timestamp(rows.text(time));
    if (!at) {
      rows.fail(time,
                "this is not a time like '2023-11-16 18:15:46.6805900' (years 1970 to 2199, at most 9 decimals).");
    }
    first = first.value_or(*at);
    const std::chrono::nanoseconds since = *at - *first;
    // Both bounds before the conversion to ticks, which holds 106 days.
    if (since.count() < 0) {
      rows.fail(time, "this row's time is before the first one's; rows must be sorted by arrival time.");
    }
    if (since > kLongestRecording) {
      rows.fail(time, "this is more than 100 days after the first row, longer than a run can be.");
    }
    collector.add(since, tokens(context), tokens(generated), rows.place(time));
  }
  return collector.finish(input.name());
}

namespace {

RequestTable make_azure_csv(ConfigReader& in, Seed seed) {
  const std::filesystem::path file = in.path(kRecordingKeys["path"]);
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kError);
  ByteInput input(file);
  return read_azure_csv(input, options);
}

}  // namespace

extern const RequestSource kAzureCsvSource{"azure_csv",
                                           "Azure LLM inference traces (TIMESTAMP,ContextTokens,GeneratedTokens)",
                                           make_azure_csv, kRecordingKeys};

}  // namespace epsim
