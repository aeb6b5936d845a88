// The formats of recorded requests, one file each, without the keys of a section: for tests and tools. All of them throw
// InputError with file, line and key.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sim/core/rng.h"
#include "traces/format/request_table.h"
#include "traces/format/text_input.h"
#include "traces/requests/request_options.h"

namespace epsim {

// What an int64 of picoseconds holds, with room.
inline constexpr std::chrono::days kLongestRecording{100};

// Azure's LLM inference traces: TIMESTAMP (date and time of day, up to 9 decimals), ContextTokens, GeneratedTokens.
// Time 0 is the first row's.
RequestTable read_azure_csv(ByteInput& input, const RequestOptions& options);

// BurstGPT: Timestamp (s), Model, Request tokens, Response tokens, Total tokens, Log Type; other columns are passed
// over. Time 0 is the first row's. Failed requests have no response tokens (drop_zero_tokens).
struct BurstGptOptions {
  std::vector<std::string> models, log_types;  // to keep; empty = all
};
RequestTable read_burstgpt_csv(ByteInput& input, const BurstGptOptions& wanted, const RequestOptions& options);

// Mooncake's traces: JSON lines with timestamp (ms since the start), input_length, output_length, hash_ids (ids of the
// blocks of `block_tokens` tokens that the input consists of; optional in a file as a whole).
RequestTable read_mooncake_jsonl(ByteInput& input, int block_tokens, const RequestOptions& options);

// Results of `vllm bench serve` and sglang.bench_serving: JSON objects with input_lens, output_lens and perhaps
// start_times (s) for a whole run, or JSON lines with one request each. See benchmark_jsonl.cpp for the names.
struct BenchmarkOptions {
  std::int64_t run = 0;                           // which of several runs, from 1; 0 = there is but one
  std::optional<RequestsPerSecond> assumed_rate;  // of arrivals that the file does not hold
  Seed seed{0};                                   // of those
};
RequestTable read_benchmark_jsonl(ByteInput& input, const BenchmarkOptions& wanted, const RequestOptions& options);

// Any table of one request a row. Time 0 is the first row's.
struct CsvColumns {
  std::string arrival, input, output;  // a name of the header, or a number from 0
  std::string time_unit;               // s, ms, us, ns, min, h; or date, for what parse_timestamp() reads
  bool header = false;                 // false when the first line is a request already
};
RequestTable read_request_csv(ByteInput& input, const CsvColumns& columns, const RequestOptions& options);

}  // namespace epsim
