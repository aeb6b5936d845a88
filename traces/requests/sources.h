// The kinds of request sources behind read_requests(), one file each. make_X reads the keys of its section; read_X is
// the format alone, for tests and tools. All of them throw InputError with file, line and key.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "traces/format/request_table.h"
#include "traces/format/text_input.h"
#include "traces/requests/request_options.h"

namespace epsim {

// What an int64 of picoseconds holds, with room.
inline constexpr std::chrono::days kLongestRecording{100};

// Generators. Keys of all: `rate` (mean requests per second, where the kind does not say otherwise), exactly one of
// `count` and `duration`, and the lengths (lengths.h).

// Independent arrivals: exponential gaps.
RequestTable make_poisson(ConfigReader& in, Seed seed);
// The k-th request (k = 0, 1, ...) arrives at k / rate.
RequestTable make_constant(ConfigReader& in, Seed seed);
// Gamma-distributed gaps. `burstiness` b is their shape, as in vLLM's bench serve: coefficient of variation 1/sqrt(b);
// 1 = Poisson, below 1 = bursts, above 1 = more even. The process is stationary from time 0 on, so that the expected
// number of requests is rate x duration for any b.
RequestTable make_gamma(ConfigReader& in, Seed seed);
// Poisson arrivals at `on_rate` and `off_rate` (default 0/s) in turns of `on_time` and `off_time`. `turns`: exponential
// (default: those are mean times of a two-state Markov process that starts in its stationary state) or fixed (the first
// turn is on, from time 0).
RequestTable make_onoff(ConfigReader& in, Seed seed);
// A Poisson process whose rate follows the clock, by thinning. Either `hourly_rates`, 24 rates (requests per second) of
// the hours of a day, or `rate` with `amplitude` (0 to 1), `period` (default 24h) and `peak_at` (default 14h):
// rate x (1 + amplitude cos(2 pi (t - peak_at) / period)). `start_at` (default 0s): the time of day at time 0.
RequestTable make_diurnal(ConfigReader& in, Seed seed);
// Clients that each wait for an answer before they send the next request, as sglang.bench_serving and vllm bench serve
// do with --max-concurrency and InferenceX always: all prompts are there at the start, `concurrency` are in flight,
// and the next goes when one has ended; its arrival is when it is sent. `count` prompts after `warmup` (0) prompts,
// which are as long as the first, and which no figure counts; `ramp` (0s): the clients begin evenly over this time.
RequestTable make_closed_loop(ConfigReader& in, Seed seed);
// Conversations: sessions start at `session_rate` (Poisson) and have a geometric number of turns of mean `turns`. The
// next turn comes `think_time` (exponential, this mean; it includes the time of the answer) after the one before. Its
// input is all that went before (inputs and answers) and the new tokens that the lengths section draws;
// `system_tokens` (default 0) stand ahead of every session and are the same in all. A session ends early when a turn
// would take more than `max_context` tokens (input and output). Prefix blocks of `block_tokens` (default 512) say what
// is shared. The trace starts with no session open.
RequestTable make_sessions(ConfigReader& in, Seed seed);

// Recorded traces. Keys of all: `path` and those of RequestOptions. Files may be gzipped.

// Azure's LLM inference traces: TIMESTAMP (date and time of day, up to 9 decimals), ContextTokens, GeneratedTokens.
// Time 0 is the first row's.
RequestTable make_azure_csv(ConfigReader& in, Seed seed);
RequestTable read_azure_csv(ByteInput& input, const RequestOptions& options);

// BurstGPT: Timestamp (s), Model, Request tokens, Response tokens, Total tokens, Log Type; other columns are passed
// over. Time 0 is the first row's. Failed requests have no response tokens (drop_zero_tokens).
struct BurstGptOptions {
  std::vector<std::string> models, log_types;  // keys of the same names; empty = all
};
RequestTable make_burstgpt_csv(ConfigReader& in, Seed seed);
RequestTable read_burstgpt_csv(ByteInput& input, const BurstGptOptions& wanted, const RequestOptions& options);

// Mooncake's traces: JSON lines with timestamp (ms since the start), input_length, output_length, hash_ids (ids of the
// blocks of `block_tokens` tokens, key and default 512, that the input consists of; optional in a file as a whole).
RequestTable make_mooncake_jsonl(ConfigReader& in, Seed seed);
RequestTable read_mooncake_jsonl(ByteInput& input, int block_tokens, const RequestOptions& options);

// Results of `vllm bench serve` and sglang.bench_serving: JSON objects with input_lens, output_lens and perhaps
// start_times (s) for a whole run, or JSON lines with one request each. See benchmark_jsonl.cpp for the names.
struct BenchmarkOptions {
  std::int64_t run = 0;                           // key `run`: which of several runs, from 1; 0 = there is but one
  std::optional<RequestsPerSecond> assumed_rate;  // key `assumed_rate`: of arrivals that the file does not hold
  Seed seed{0};                                   // of those
};
RequestTable make_benchmark_jsonl(ConfigReader& in, Seed seed);
RequestTable read_benchmark_jsonl(ByteInput& input, const BenchmarkOptions& wanted, const RequestOptions& options);

// Any table of one request a row. Time 0 is the first row's.
struct CsvColumns {
  // Keys arrival_column, input_column, output_column: a name of the header, or a number from 0.
  std::string arrival, input, output;
  // Key time_unit: s, ms, us, ns, min, h; or date, for what parse_timestamp() reads.
  std::string time_unit = "s";
  bool header = true;  // key header: false when the first line is a request already
};
RequestTable make_csv(ConfigReader& in, Seed seed);
RequestTable read_request_csv(ByteInput& input, const CsvColumns& columns, const RequestOptions& options);

// The requests of a trace file of our own (traces/FORMAT.md).
RequestTable make_trace_file_requests(ConfigReader& in, Seed seed);

// ServeGen's client statistics, a folder or a .tar(.gz); see servegen.h.
RequestTable make_servegen(ConfigReader& in, Seed seed);

}  // namespace epsim
