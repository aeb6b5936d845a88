#include "traces/requests/read_requests.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "traces/requests/detect.h"
#include "traces/requests/prefix_blocks.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

RequestTable make_detected(ConfigReader& in, Seed seed);

constexpr RequestSource kSources[] = {
    {"poisson", "independent arrivals at a mean rate", make_poisson, true},
    {"constant", "evenly spaced arrivals", make_constant, true},
    {"gamma", "gamma-distributed gaps with a burstiness, as vLLM's bench serve", make_gamma, true},
    {"onoff", "Poisson arrivals at two rates in turns: bursts and quiet", make_onoff, true},
    {"diurnal", "Poisson arrivals whose rate follows the hour of the day", make_diurnal, true},
    {"closed_loop", "clients with one request in flight each, as benchmarks with --max-concurrency", make_closed_loop},
    {"sessions", "conversations: turns, think time, growing context, shared prefixes", make_sessions, true},
    {"auto", "a recorded trace (path), its kind told from its first bytes", make_detected},
    {"azure_csv", "Azure LLM inference traces (TIMESTAMP,ContextTokens,GeneratedTokens)", make_azure_csv},
    {"burstgpt_csv", "BurstGPT (Timestamp,Model,Request tokens,Response tokens,...)", make_burstgpt_csv},
    {"mooncake_jsonl", "Mooncake traces with prefix block hashes (JSON lines)", make_mooncake_jsonl},
    {"servegen", "requests drawn from ServeGen's client statistics (folder or tar.gz)", make_servegen},
    {"benchmark_jsonl", "results of vllm bench serve and sglang.bench_serving", make_benchmark_jsonl},
    {"csv", "any table with columns for arrival, input and output tokens", make_csv},
    {"trace_file", "requests in a trace file of epsim's own (HDF5)", make_trace_file_requests}};

const RequestSource& source_of(const ConfigReader& in, const std::string& kind) {
  std::vector<std::string> names;
  for (const RequestSource& source : kSources) {
    if (source.name == kind) {
      return source;
    }
    names.emplace_back(source.name);
  }
  in.fail("kind", unknown_name("kind of requests", kind, names));
}

RequestTable make_detected(ConfigReader& in, Seed seed) {
  return source_of(in, detect_request_kind(in.path("path"))).read(in, seed);
}

}  // namespace

std::span<const RequestSource> request_sources() { return kSources; }

bool is_generated(std::string_view kind) {
  return std::any_of(std::begin(kSources), std::end(kSources),
                     [&](const RequestSource& source) { return source.generated && source.name == kind; });
}

RequestTable read_request_table(ConfigReader& in, Seed seed) {
  const RequestSource& source = source_of(in, in.required<std::string>("kind"));
  if (const auto own = in.maybe<std::int64_t>("seed")) {
    seed = static_cast<Seed>(*own);
  }
  return source.read(in, seed);
}

RequestTrace read_requests(ConfigReader& in, Seed seed) {
  RequestTable table = read_request_table(in, seed);
  table.trace.prefixes = chain_prefix_blocks(table);
  return std::move(table.trace);
}

}  // namespace epsim
