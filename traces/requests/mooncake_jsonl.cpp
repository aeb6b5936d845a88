// Mooncake's request traces (github.com/kvcache-ai/Mooncake, FAST25-release/traces; Qin et al., FAST 2025).
#include <fmt/format.h>

#include <memory>

#include "traces/requests/json_records.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

const JsonField& required(const JsonRecord& record, std::string_view name) {
  const JsonField* field = record.find(name);
  if (field == nullptr) {
    record.fail(std::string(name), "this field is required and missing.");
  }
  return *field;
}

Ticks arrival_of(const JsonRecord& record) {
  const JsonField& field = required(record, "timestamp");
  const double ms = record.number(field);
  if (!(ms >= 0) || ms > std::chrono::duration<double, std::milli>(kLongestRecording).count()) {
    record.fail(field.name, "the time in ms since the start must be within 0 and 100 days.");
  }
  return field.number.whole ? Ticks(std::chrono::milliseconds(field.number.integer)) : to_ticks(Seconds{ms / 1e3});
}

}  // namespace

RequestTable read_mooncake_jsonl(ByteInput& input, int block_tokens, const RequestOptions& options) {
  std::unique_ptr<RequestCollector> collector;  // made with the first record, which says whether there are blocks
  bool has_blocks = false;
  std::vector<std::int64_t> blocks;
  read_json_records(input, {"timestamp", "input_length", "output_length", "hash_ids"}, [&](const JsonRecord& record) {
    const JsonField* ids = record.find("hash_ids");
    if (!collector) {
      has_blocks = ids != nullptr;
      collector = std::make_unique<RequestCollector>(options, has_blocks ? block_tokens : 0);
    }
    if ((ids != nullptr) != has_blocks) {
      record.fail("hash_ids", "either all requests of a file have this list or none.");
    }
    if (ids != nullptr) {
      record.integers(*ids, blocks);
    }
    const Ticks arrival = arrival_of(record);
    const std::int64_t input_tokens = record.integer(required(record, "input_length"));
    const std::int64_t output_tokens = record.integer(required(record, "output_length"));
    collector->add(arrival, input_tokens, output_tokens, record.place, blocks);
  });
  if (!collector) {
    throw InputError({input.name(), 0, ""}, "the trace holds no request.");
  }
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
