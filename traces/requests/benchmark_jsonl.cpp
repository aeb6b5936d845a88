// Results of the engines' own load generators.
//
// vLLM (`vllm bench serve --save-result --save-detailed`) writes one JSON object a run, sglang.bench_serving
// (`--output-details`) appends one to a JSON-lines file: lists input_lens and output_lens, one item per request, and in
// newer vLLM start_times (seconds on the client's clock), beside figures of the whole run such as request_rate (a
// number, or "inf") and burstiness. Other tools write one object per request. Both are read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/core/refuse.h"
#include "traces/requests/json_records.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

// The names that lists of a run and fields of a request go by, the usual one first.
const std::vector<std::string_view> kInputLists = {"input_lens"}, kOutputLists = {"output_lens"};
const std::vector<std::string_view> kStartLists = {"start_times", "arrival_times", "request_submit_times"};
const std::vector<std::string_view> kInput = {"prompt_len", "input_len", "input_tokens", "prompt_tokens",
                                              "input_length"};
const std::vector<std::string_view> kOutput = {"output_len", "output_tokens", "completion_tokens", "generated_tokens",
                                               "output_length"};
const std::vector<std::string_view> kStart = {"start_time", "arrival_time", "arrived_at", "timestamp"};

std::vector<std::string_view> wanted_names() {
  std::vector<std::string_view> all = {"request_rate", "burstiness"};
  for (const auto* names : {&kInputLists, &kOutputLists, &kStartLists, &kInput, &kOutput, &kStart}) {
    all.insert(all.end(), names->begin(), names->end());
  }
  return all;
}

struct Row {
  std::int64_t input_tokens, output_tokens;
  double start_s;
  InputPlace place;
};

// What a file holds: the rows of the wanted run, or of all single requests.
struct Contents {
  std::vector<Row> rows;
  bool has_starts = false;
  std::int64_t single = 0;
  double rate = 0.0;  // of the client; 0 = not stated, infinity = all at once
  double burstiness = 1.0;
};

// request_rate: a number, or "inf" (vLLM), or Python's Infinity, which arrives here as null.
double stated_rate(const JsonRecord& record) {
  const nlohmann::json& rate = record.at("request_rate");
  if (record.has("request_rate") && (rate.is_null() || rate == "inf")) {
    return std::numeric_limits<double>::infinity();
  }
  return rate.is_number() ? rate.get<double>() : 0.0;  // a word such as "trace" states none
}

void take_run(const JsonRecord& record, const std::string& inputs, Contents& out) {
  const std::string outputs = record.first_of(kOutputLists), starts = record.first_of(kStartLists);
  const std::vector<std::int64_t> in = record.integers(inputs);
  const std::vector<std::int64_t> generated = outputs.empty() ? in : record.integers(outputs);
  const std::vector<double> start_s = starts.empty() ? std::vector<double>(in.size()) : record.numbers(starts);
  if (outputs.empty() || generated.size() != in.size() || start_s.size() != in.size()) {
    record.fail(inputs, "the lists of a run's requests must all be there and be equally long.");
  }
  out.has_starts = !starts.empty();
  out.rate = stated_rate(record);
  if (record.has("burstiness")) {
    out.burstiness = record.number("burstiness");
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    out.rows.push_back(
        {in[i], generated[i], start_s[i], {record.place.file, record.place.line, fmt::format("{}[{}]", inputs, i)}});
  }
}

void take_request(const JsonRecord& record, Contents& out) {
  const std::string in = record.first_of(kInput), generated = record.first_of(kOutput);
  const std::string start = record.first_of(kStart);
  if (in.empty() || generated.empty()) {
    record.fail("", fmt::format("this object is neither a run with the lists {} and {} nor a request with {} and {} "
                                "(or another usual name of these).",
                                kInputLists[0], kOutputLists[0], kInput[0], kOutput[0]));
  }
  if (out.single > 0 && start.empty() == out.has_starts) {
    record.fail(std::string(kStart[0]), "either all requests of a file have a time or none.");
  }
  out.has_starts = !start.empty();
  ++out.single;
  if (static_cast<double>(out.single) > kMaxRequests) {
    record.fail("", fmt::format("the file holds more than {:.0e} requests.", kMaxRequests));
  }
  out.rows.push_back(
      {record.integer(in), record.integer(generated), start.empty() ? 0.0 : record.number(start), record.place});
}

// `run` counts all objects, those without lists too: a client appends one for each run whatever it was told to write.
Contents read_contents(ByteInput& input, std::int64_t run) {
  Contents out;
  std::int64_t objects = 0;
  read_json_records(input, wanted_names(), [&](const JsonRecord& record) {
    const std::string inputs = record.first_of(kInputLists);
    ++objects;
    if (run > 0 && objects != run) {
      return;
    }
    if (run > 0 && inputs.empty()) {
      record.fail("run", fmt::format("run {} has no list {} of its requests.", run, kInputLists[0]));
    }
    if (inputs.empty() ? out.single + 1 < objects : out.single > 0) {
      record.fail("", "the file mixes whole runs and single requests.");
    }
    if (inputs.empty()) {
      take_request(record, out);
    } else {
      if (!out.rows.empty()) {
        record.fail("run", "the file holds several runs; say which one is meant with run: 1, 2, ...");
      }
      take_run(record, inputs, out);
    }
  });
  refuse_if(objects < run, {input.name(), 0, "run"}, fmt::format("run {} is wanted; the file holds {}.", run, objects));
  return out;
}

// Clients start requests in the order of their data set, but a limit on concurrency can swap neighbours.
void sort_by_start(std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (!std::isfinite(row.start_s)) {
      throw InputError(row.place, "the start time must be a finite number of seconds.");
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.start_s < b.start_s; });
  refuse_if(rows.back().start_s - rows.front().start_s > Seconds(kLongestRecording).count(), rows.back().place,
            "this starts more than 100 days after the first request.");
}

// Start times drawn as the client drew them, because the file does not hold any. Returns what the source should say.
std::string draw_starts(Contents& c, const BenchmarkOptions& wanted, const std::string& file) {
  const double rate = wanted.assumed_rate ? wanted.assumed_rate->count() : c.rate;
  refuse_if(!(rate > 0), {file, 0, "assumed_rate"},
            "the file holds neither start times nor a request rate; state the rate to assume with assumed_rate.");
  if (std::isinf(rate)) {
    return " (all at once, as the client's infinite rate says)";
  }
  refuse_if(!(c.burstiness > 1e-3 && c.burstiness < 1e6) || static_cast<double>(c.rows.size()) / rate > 8e6,
            {file, 0, ""}, "the stated burstiness or rate is none that a run could have had.");
  RandomStream gaps(wanted.seed, "requests.benchmark.arrivals");
  double at_s = 0.0;
  for (Row& row : c.rows) {  // the first request starts at once, as with SGLang's client
    row.start_s = at_s;
    at_s += gaps.gamma(c.burstiness, 1.0 / (rate * c.burstiness));
  }
  return fmt::format(" (arrivals drawn: {:g}/s, burstiness {:g})", rate, c.burstiness);
}

}  // namespace

RequestTable read_benchmark_jsonl(ByteInput& input, const BenchmarkOptions& wanted, const RequestOptions& options) {
  Contents c = read_contents(input, wanted.run);
  refuse_if(c.rows.empty(), {input.name(), 0, ""}, "the trace holds no request.");
  std::string source = input.name();
  if (!c.has_starts) {
    source += draw_starts(c, wanted, input.name());
  }
  sort_by_start(c.rows);
  RequestCollector collector(options);
  for (const Row& row : c.rows) {
    collector.add(to_ticks(Seconds{row.start_s - c.rows.front().start_s}), row.input_tokens, row.output_tokens,
                  row.place);
  }
  return collector.finish(source);
}

namespace {

constexpr KeyTable kBenchmarkKeys =
    KeyTable({
        {"run", key::whole(Bound::kPositive), key::kNone, "Which of several runs in the file, from 1."},
        {"assumed_rate", key::request_rate(kRateRange), key::kNone,
         "Arrival rate where the file has no arrival times."},
    }) +
    kRecordingKeys;

RequestTable make_benchmark_jsonl(ConfigReader& in, Seed seed) {
  const std::filesystem::path file = in.path(kRecordingKeys["path"]);
  BenchmarkOptions wanted;
  wanted.run = in.maybe<std::int64_t>(kBenchmarkKeys["run"]).value_or(0);
  wanted.assumed_rate = in.maybe<RequestsPerSecond>(kBenchmarkKeys["assumed_rate"]);
  wanted.seed = seed;
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  ByteInput input(file);
  return read_benchmark_jsonl(input, wanted, options);
}

}  // namespace

extern const RequestSource kBenchmarkSource{"benchmark_jsonl", "results of vllm bench serve and sglang.bench_serving",
                                            make_benchmark_jsonl, kBenchmarkKeys};

}  // namespace epsim
