#include "sim/core/check.h"
#include "tests/fuzz/targets.h"
#include "traces/requests/servegen.h"
#include "traces/requests/sources.h"

namespace epsim::fuzz {

namespace {

// One of four sets of options, told by the input's size, so that all of them meet all kinds of damage.
RequestOptions options_for(std::size_t size) {
  RequestOptions o;
  o.equal_times = size % 2 == 0 ? EqualTimes::kKeep : EqualTimes::kSpread;
  o.drop_zero_tokens = size % 4 >= 2;
  switch (size % 4) {
    case 1:
      o.time_scale = 0.5;
      break;
    case 2:
      o.max_input_tokens = 100;
      o.max_output_tokens = 10;
      break;
    case 3:
      o.slice_start = std::chrono::seconds(1);
      o.rate = RequestsPerSecond(3);
      break;
    default:
      break;
  }
  return o;
}

void check_table(const RequestTable& table) {
  table.trace.validate();
  const std::vector<std::int64_t>& start = table.prefix_start;
  EPSIM_CHECK(start.empty() == (table.block_tokens == 0), "offsets go with blocks");
  EPSIM_CHECK(start.empty() || (start.size() == table.trace.requests.size() + 1 && start.front() == 0 &&
                                start.back() == static_cast<std::int64_t>(table.prefix_blocks.size())),
              "offsets cover the blocks");
}

// Reads `bytes` with `read`, a function of an input and options.
template <class Read>
void attempt(const std::string& bytes, Read read) {
  try {
    ByteInput input = ByteInput::from_memory("fuzz", bytes);
    check_table(read(input, options_for(bytes.size())));
  } catch (const InputError&) {
  }
}

void azure_csv(const std::string& bytes) { attempt(bytes, read_azure_csv); }

void burstgpt_csv(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) { return read_burstgpt_csv(in, {}, o); });
}

void mooncake_jsonl(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) { return read_mooncake_jsonl(in, 512, o); });
}

void benchmark_jsonl(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) { return read_benchmark_jsonl(in, {}, o); });
}

void request_csv(const std::string& bytes) {
  for (const CsvColumns& columns : {CsvColumns{"0", "1", "2", "s", true}, CsvColumns{"0", "1", "2", "h", false},
                                    CsvColumns{"when", "in", "out", "date", true}}) {
    attempt(bytes, [&](ByteInput& in, const RequestOptions& o) { return read_request_csv(in, columns, o); });
  }
}

// Draws from a pool when that is a matter of milliseconds.
RequestTable draw(const ServeGenPool& pool, const RequestOptions& options) {
  double requests = 0;
  for (const ServeGenClient& client : pool.clients) {
    for (const ClientWindow& w : client.windows) {
      requests += w.rate * pool.window_s;
    }
  }
  if (!(requests < 1e4)) {
    throw InputError({}, "too many for a fuzzer");
  }
  RequestOptions bounded = options;
  bounded.rate.reset();
  ServeGenOptions wanted;
  wanted.skip_missing = true;
  return sample_servegen(pool, wanted, bounded);
}

void servegen_archive(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) { return draw(read_servegen_archive(in), o); });
}

// The two files of a client, which the archive's checksums keep from being reached.
ServeGenPool pool_of(ServeGenClient client) {
  ServeGenPool pool;
  pool.source = "fuzz";
  pool.window_s = client.windows.size() > 1 ? client.windows[1].start_s - client.windows[0].start_s : 600.0;
  pool.end_s = client.windows.back().start_s + pool.window_s;
  pool.clients.push_back(std::move(client));
  return pool;
}

void servegen_trace(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) {
    ServeGenClient client;
    client.windows = read_client_windows(in);
    client.lengths = {{0.0, {{5}, {1.0}}, {{6}, {1.0}}}};
    return draw(pool_of(std::move(client)), o);
  });
}

void servegen_dataset(const std::string& bytes) {
  attempt(bytes, [](ByteInput& in, const RequestOptions& o) {
    ServeGenClient client;
    client.windows = {{0.0, 0.1, {}}, {600.0, 0.1, {}}};
    client.lengths = read_client_lengths(in);
    return draw(pool_of(std::move(client)), o);
  });
}

constexpr Target kRequestTargets[] = {{"azure_csv", azure_csv},           {"burstgpt_csv", burstgpt_csv},
                                      {"mooncake_jsonl", mooncake_jsonl}, {"benchmark_jsonl", benchmark_jsonl},
                                      {"request_csv", request_csv},       {"servegen_archive", servegen_archive},
                                      {"servegen_trace", servegen_trace}, {"servegen_dataset", servegen_dataset}};

}  // namespace

std::span<const Target> request_targets() { return kRequestTargets; }

}  // namespace epsim::fuzz
