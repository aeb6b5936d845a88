// Request readers on the real files of the shared data folder, against the figures that their SOURCE.md states.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/support.h"
#include "traces/format/trace_file.h"
#include "traces/requests/servegen.h"

namespace epsim {
namespace {

using test::contains;
using test::message;
using test::seconds_of;
using test::table_of;

std::string shared(const std::string& file) { return (test::shared_dir() / "data" / file).string(); }

struct Means {
  double input = 0, output = 0;
};
Means means_of(const RequestTrace& t) {
  Means m;
  for (const Request& r : t.requests) {
    m.input += r.input_tokens;
    m.output += r.output_tokens;
  }
  m.input /= static_cast<double>(t.requests.size());
  m.output /= static_cast<double>(t.requests.size());
  return m;
}

TEST_CASE("Azure 2023, its kind told from the file") {
  struct Row {
    const char* name;
    std::size_t rows;
    double input, output;
  };
  for (const Row& r : {Row{"code", 8819, 2048, 28}, Row{"conv", 19366, 1155, 211}}) {
    CAPTURE(r.name);
    const RequestTrace t =
        table_of("{kind: auto}", shared(std::string("azure-llm-2023/AzureLLMInferenceTrace_") + r.name + ".csv")).trace;
    CHECK(t.requests.size() == r.rows);
    CHECK(std::abs(means_of(t).input - r.input) <= 0.5);  // stated as rounded numbers
    CHECK(std::abs(means_of(t).output - r.output) <= 0.5);
  }
}

TEST_CASE("Mooncake's conversation hour") {
  const std::string file = shared("mooncake-fast25/conversation_trace.jsonl.gz");
  const RequestTable t = table_of("{kind: auto}", file);
  REQUIRE(t.trace.requests.size() == 12031);
  CHECK(std::llround(seconds_of(t.trace.requests.back().arrival)) == 3537);
  CHECK(std::abs(means_of(t.trace).input - 12035) <= 0.5);
  CHECK(std::abs(means_of(t.trace).output - 343) <= 0.5);
  std::vector<std::int32_t> inputs;
  for (const Request& r : t.trace.requests) {
    inputs.push_back(r.input_tokens);
  }
  std::sort(inputs.begin(), inputs.end());
  CHECK(inputs[inputs.size() / 2] == 6909);  // the stated p50
  CHECK(t.prefix_blocks.size() == 288500);
  CHECK(std::set<std::int64_t>(t.prefix_blocks.begin(), t.prefix_blocks.end()).size() == 182790);
  CHECK(t.block_tokens == 512);

  // Its clock has slots of 3 s: spread out, no two requests arrive at once.
  const RequestTable spread = table_of("{kind: auto, equal_timestamps: spread}", file);
  for (std::size_t i = 1; i < spread.trace.requests.size(); ++i) {
    CHECK_FALSE(spread.trace.requests[i].arrival == spread.trace.requests[i - 1].arrival);
  }
}

TEST_CASE("Mooncake's synthetic trace") {
  const RequestTrace t = table_of("{kind: auto}", shared("mooncake-fast25/synthetic_trace.jsonl.gz")).trace;
  REQUIRE(t.requests.size() == 3993);
  CHECK(std::llround(seconds_of(t.requests.back().arrival)) == 1022);
  CHECK(std::abs(means_of(t).input - 15325) <= 0.5);
  CHECK(std::abs(means_of(t).output - 149) <= 0.5);
}

TEST_CASE("Mooncake through a trace file and back is exact") {
  const test::TempDir folder;
  const std::string file = (folder / "m.h5").string();
  const RequestTable t = table_of("{kind: auto}", shared("mooncake-fast25/conversation_trace.jsonl.gz"));
  TraceFileWriter writer(file);
  writer.requests(t);
  writer.commit();
  const RequestTable back = table_of("{kind: auto}", file);
  REQUIRE(back.trace.requests.size() == t.trace.requests.size());
  for (std::size_t i = 0; i < t.trace.requests.size(); ++i) {
    const Request &a = t.trace.requests[i], &b = back.trace.requests[i];
    CHECK_FALSE((a.arrival != b.arrival || a.input_tokens != b.input_tokens || a.output_tokens != b.output_tokens));
  }
  CHECK(back.prefix_blocks == t.prefix_blocks);
  CHECK(back.prefix_start == t.prefix_start);
}

// What the pool's statistics lead one to expect: requests, their tokens, and the variance of their number.
struct Stated {
  double requests = 0, input = 0, output = 0, variance = 0;
};
double cv2_of(const GapRule& gaps) {
  switch (gaps.family) {
    case GapRule::Family::kGamma:
      return 1 / gaps.shape;
    case GapRule::Family::kWeibull: {
      const double mean = std::tgamma(1 + 1 / gaps.shape);
      return std::tgamma(1 + 2 / gaps.shape) / (mean * mean) - 1;
    }
    default:
      return 1;
  }
}
Stated stated_by(const ServeGenPool& pool) {
  Stated s;
  for (const ServeGenClient& client : pool.clients) {
    for (const ClientWindow& w : client.windows) {
      const ClientLengths* lengths = nullptr;
      for (const ClientLengths& l : *client.lengths) {
        lengths = l.start_s <= w.start_s ? &l : lengths;
      }
      const double n = w.rate * pool.window_s;
      s.requests += n;
      s.variance += n * cv2_of(w.gaps);
      s.input += n > 0 ? n * lengths->input.mean() : 0;
      s.output += n > 0 ? n * lengths->output.mean() : 0;
    }
  }
  return s;
}

TEST_CASE("ServeGen's DeepSeek-R1 day: rates as stated, and drawn requests that follow them") {
  ByteInput input(shared("servegen/deepseek-r1.tar.gz"));
  const ServeGenPool pool = read_servegen_archive(input);
  CHECK(pool.clients.size() == 73);
  CHECK(pool.window_s == 600);
  CHECK(pool.end_s == 86400);
  std::vector<double> total(144);
  for (const ServeGenClient& client : pool.clients) {
    REQUIRE(client.windows.size() == 144);
    REQUIRE(client.lengths);
    for (std::size_t w = 0; w < 144; ++w) {
      total[w] += client.windows[w].rate;
    }
  }
  // Stated: 4.3 / 16.0 / 42.5 requests per second (min, mean, max).
  CHECK(std::abs(*std::min_element(total.begin(), total.end()) - 4.3) < 0.05);
  CHECK(std::abs(*std::max_element(total.begin(), total.end()) - 42.5) < 0.05);
  const Stated stated = stated_by(pool);
  CHECK(std::abs(stated.requests / 86400 - 16.0) < 0.05);

  RequestOptions options;
  options.equal_times = EqualTimes::kKeep;
  const RequestTrace t = sample_servegen(pool, {}, options).trace;
  const auto n = static_cast<double>(t.requests.size());
  // The variance of a renewal count is at most about cv^2 of its gaps times its mean; clients are independent.
  CHECK(std::abs(n - stated.requests) < 5 * std::sqrt(stated.variance));
  CHECK(means_of(t).input == doctest::Approx(stated.input / stated.requests).epsilon(0.02));
  CHECK(means_of(t).output == doctest::Approx(stated.output / stated.requests).epsilon(0.02));
}

TEST_CASE("ServeGen's m-small: five length files are absent, an hour of the rest can be drawn") {
  ByteInput input(shared("servegen/m-small.tar.gz"));
  const ServeGenPool pool = read_servegen_archive(input);
  RequestOptions hour;
  hour.equal_times = EqualTimes::kKeep;
  CHECK(contains(message([&] { sample_servegen(pool, {}, hour); }), "Take a shorter slice"));
  hour.slice_start = std::chrono::hours(24);
  hour.slice_length = std::chrono::hours(1);
  hour.rate = RequestsPerSecond(100);
  ServeGenOptions wanted;
  CHECK(contains(message([&] { sample_servegen(pool, wanted, hour); }), "-dataset.json is missing"));
  wanted.skip_missing = true;
  const RequestTrace t = sample_servegen(pool, wanted, hour).trace;
  CHECK(contains(t.source, "requests without lengths skipped"));
  CHECK(t.requests.back().arrival < std::chrono::hours(1));
  CHECK(pool.clients.size() == 43);
  std::set<std::int64_t> without;
  double rate = 0;
  for (const ServeGenClient& client : pool.clients) {
    if (!client.lengths) {
      without.insert(client.number);
    }
    for (const ClientWindow& w : client.windows) {
      rate += w.rate / 2016;  // 14 days of 600 s
    }
  }
  CHECK(without == std::set<std::int64_t>{1, 5, 8, 11, 38});
  CHECK(std::abs(rate - 1174) < 0.5);  // stated
}

}  // namespace
}  // namespace epsim
