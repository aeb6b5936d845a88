// Mooncake's request traces (github.com/kvcache-ai/Mooncake, FAST25-release/traces; Qin et al., FAST 2025).
#include <fmt/format.h>

#include <memory>

#include "sim/core/refuse.h"
#include "traces/requests/json_records.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

Ticks arrival_of(const JsonRecord& record) {
  const double ms = record.number("timestamp");
  if (!(ms >= 0) || ms > std::chrono::duration<double, std::milli>(kLongestRecording).count()) {
    record.fail("timestamp", "the time in ms since the start must be within 0 and 100 days.");
  }
  const bool whole = record.at("timestamp").is_number_integer();
  return whole ? Ticks(std::chrono::milliseconds(record.integer("timestamp"))) : to_ticks(Seconds{ms / 1e3});
}

}  // namespace

RequestTable read_mooncake_jsonl(ByteInput& input, int block_tokens, const RequestOptions& options) {
  std::unique_ptr<RequestCollector> collector;  // made with the first record, which says whether there are blocks
  bool has_blocks = false;
  std::vector<std::int64_t> blocks;
  read_json_records(input, {"timestamp", "input_length", "output_length", "hash_ids"}, [&](const JsonRecord& record) {
    for (const char* name : {"timestamp", "input_length", "output_length"}) {
      if (!record.has(name)) {
        record.fail(name, "this field is required and missing.");
      }
    }
    const bool ids = record.has("hash_ids");
    if (!collector) {
      has_blocks = ids;
      collector = std::make_unique<RequestCollector>(options, has_blocks ? block_tokens : 0);
    }
    if (ids != has_blocks) {
      record.fail("hash_ids", "either all requests of a file have this list or none.");
    }
    if (ids) {
      blocks = record.integers("hash_ids");
    }
    const Ticks arrival = arrival_of(record);
    const std::int64_t input_tokens = record.integer("input_length");
    const std::int64_t output_tokens = record.integer("output_length");
    collector->add(arrival, input_tokens, output_tokens, record.place, blocks);
  });
  refuse_if(!collector, {input.name(), 0, ""}, "the trace holds no request.");
  return collector->finish(input.name());
}

namespace {

constexpr KeyTable kMooncakeKeys =
    KeyTable({{"block_tokens", key::whole(Bound::kPositive), key::is(512), "Tokens per prefix block."}}) +
    kRecordingKeys;

RequestTable make_mooncake_jsonl(ConfigReader& in, Seed seed) {
  const std::filesystem::path file = in.path(kRecordingKeys["path"]);
  const int block_tokens = in.read<int>(kMooncakeKeys["block_tokens"]);
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  ByteInput input(file);
  return read_mooncake_jsonl(input, block_tokens, options);
}

}  // namespace

extern const RequestSource kMooncakeSource{"mooncake_jsonl", "Mooncake traces with prefix block hashes (JSON lines)",
                                           make_mooncake_jsonl, kMooncakeKeys};

}  // namespace epsim
