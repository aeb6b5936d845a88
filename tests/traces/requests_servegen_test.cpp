// Tar archives, ServeGen's files, and requests drawn from them.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/requests_tar.h"
#include "tests/traces/support.h"
#include "traces/requests/servegen.h"
#include "traces/requests/sources.h"

namespace epsim {
namespace {

using test::contains;
using test::message;
using test::seconds_of;
using test::tar_end;
using test::tar_entry;

// A pool in memory. Lengths: inputs 10 or 20, outputs 1 or 2, each with the chance 1/2.
const std::string kLengths =
    "{\"0\": {\"input_tokens\": \"{10: 0.5, 20: 0.5}\", \"output_tokens\": \"{1: 0.5, 2: 0.5}\", "
    "\"reason_ratio\": \"{0.0: 1.0}\"}}";

std::string rows(int windows, const std::string& rest) {
  std::string out;
  for (int w = 0; w < windows; ++w) {
    out += std::to_string(600 * w) + "," + rest + "\n";
  }
  return out;
}

TEST_CASE("tar: regular files are read; folders, links and other files are not; long names of both kinds") {
  const std::string folder = "folder/" + std::string(200, 'n') + "/";
  const std::string trace_name = folder + "chunk-1-trace.csv", lengths_name = folder + "chunk-1-dataset.json";
  const std::string record = "path=" + lengths_name + "\n";
  const std::string archive =
      tar_entry("folder/", "", '5') + tar_entry("a", "first") + tar_entry("chunk-9-trace.csv", "", '2') +
      tar_entry("././@LongLink", trace_name + '\0', 'L') + tar_entry("cut", rows(2, "1,1,,0,0")) +
      tar_entry("chunk-9-trace.csv", "", '1') + tar_entry("skipped", std::string(700, 'b')) +
      tar_entry("pax", std::to_string(record.size() + 4) + " " + record, 'x') + tar_entry("cut", kLengths) +
      tar_entry("last", "") + tar_end();
  ByteInput input = ByteInput::from_memory("t.tar", archive);
  const ServeGenPool pool = read_servegen_archive(input);
  REQUIRE(pool.clients.size() == 1);
  CHECK(pool.clients[0].name == "t.tar/" + trace_name);
  CHECK(pool.clients[0].windows.size() == 2);
  CHECK(pool.clients[0].lengths->size() == 1);
}

TEST_CASE("tar: damage is an error") {
  const auto walk = [](const std::string& bytes) {
    return message([&] {
      ByteInput input = ByteInput::from_memory("t.tar", bytes);
      read_servegen_archive(input);
    });
  };
  const std::string entry = tar_entry("chunk-1-trace.csv", "0,1,1,,0,0\n"), good = entry + tar_end();
  CHECK(walk(good).empty());
  std::string flipped = good;
  flipped[3] = 'x';
  CHECK(contains(walk(flipped), "t.tar:1: this is not a tar archive"));
  CHECK(contains(walk(entry + flipped), "damaged"));
  CHECK(contains(walk(good.substr(0, 100)), "cut off"));
  CHECK(contains(walk(good.substr(0, 515)), "cut off"));
  CHECK(contains(walk(good.substr(0, 600)), "cut off"));
  CHECK(contains(walk(std::string(512, 'x')), "not a tar archive"));
  // A header that states 8 GiB: refused for its size, before memory is taken.
  std::string huge = tar_entry("chunk-1-trace.csv", "");
  huge.replace(124, 11, "77777777777");
  std::size_t sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i) {
    sum += i >= 148 && i < 156 ? 0 : static_cast<unsigned char>(huge[i]);
  }
  char text[8];
  std::snprintf(text, sizeof text, "%06zo", sum);
  huge.replace(148, 6, text);
  CHECK(contains(walk(huge), "8589934591 bytes"));
}

TEST_CASE("tar: a name that is not ASCII does not hide a client") {
  const std::string name = "f\xc3\xb6lder/chunk-1-trace.csv", record = "path=" + name + "\n";
  const std::string archive = tar_entry("pax", std::to_string(record.size() + 3) + " " + record, 'x') +
                              tar_entry("cut", rows(2, "1,1,,0,0")) +
                              tar_entry("f\xc3\xb6lder/chunk-2-trace.csv", rows(2, "1,1,,0,0"));
  ByteInput input = ByteInput::from_memory("t.tar", archive);
  CHECK(read_servegen_archive(input).clients.size() == 2);
}

ServeGenPool pool_of(const std::string& trace, const std::string& lengths = kLengths) {
  const std::string archive =
      tar_entry("x/chunk-3-dataset.json", lengths) + tar_entry("x/chunk-3-trace.csv", trace) + tar_end();
  ByteInput input = ByteInput::from_memory("pool.tar", archive);
  return read_servegen_archive(input);
}

RequestOptions options() {
  RequestOptions o;
  o.equal_times = EqualTimes::kKeep;
  o.seed = Seed{5};
  return o;
}

TEST_CASE("every family gives the recorded rate: no surplus at the windows' starts") {
  struct Row {
    const char* rest;
    double rate, cv2;
  };
  // Weibull of shape 1/2: E[X^2] / E[X]^2 - 1 = Gamma(5) / Gamma(3)^2 - 1 = 24/4 - 1 = 5. Gamma: 1 / shape.
  // The recorded scale (the last field) is a fit that does not enter.
  for (const Row& r : {Row{"0.05,1,,0,0", 0.05, 1.0}, Row{"0.05,6.7,Gamma,0.0225,9", 0.05, 1 / 0.0225},
                       Row{"0.05,2.2,Weibull,0.5,9", 0.05, 5.0}}) {
    CAPTURE(r.rest);
    const RequestTrace t = sample_servegen(pool_of(rows(4000, r.rest)), {}, options()).trace;
    // 4000 windows of 30 expected requests; counts of a renewal process spread by cv^2 x their mean at most. A process
    // that started each window with a whole gap would make about (cv^2 - 1) / 2 more in each: 21 with the gamma.
    CHECK(std::abs(static_cast<double>(t.requests.size()) - 120000) < 5 * std::sqrt(r.cv2 * 120000));
  }
}

TEST_CASE("lengths: each by its distribution; ranked draws both at one quantile") {
  const ServeGenPool pool = pool_of(rows(10, "1,1,,0,0"));
  ServeGenOptions wanted;
  const auto pairs = [&] {
    std::set<std::pair<int, int>> seen;
    for (const Request& r : sample_servegen(pool, wanted, options()).trace.requests) {
      seen.insert({r.input_tokens, r.output_tokens});
    }
    return seen;
  };
  CHECK(pairs().size() == 4);
  wanted.ranked = true;
  CHECK(pairs() == std::set<std::pair<int, int>>{{10, 1}, {20, 2}});
  CHECK(pool.clients[0].lengths->front().input.mean() == doctest::Approx(15.0));
}

TEST_CASE("the distributions of the last window of lengths that has begun hold") {
  const std::string two =
      "{\"0\": {\"input_tokens\": \"{10: 1.0}\", \"output_tokens\": \"{1: 1.0}\"}, "
      "\"1200\": {\"input_tokens\": \"{30: 1.0}\", \"output_tokens\": \"{3: 1.0}\"}}";
  for (const Request& r : sample_servegen(pool_of(rows(4, "1,1,,0,0"), two), {}, options()).trace.requests) {
    CHECK_FALSE(r.input_tokens != (seconds_of(r.arrival) < 1200 ? 10 : 30));
  }
}

TEST_CASE("a slice holds the requests that the whole holds there") {
  const ServeGenPool pool = pool_of(rows(5, "0.5,1,Gamma,0.5,1"));
  const RequestTrace whole = sample_servegen(pool, {}, options()).trace;
  RequestOptions part = options();
  part.slice_start = std::chrono::seconds(900);
  part.slice_length = std::chrono::seconds(1000);
  const RequestTrace slice = sample_servegen(pool, {}, part).trace;
  std::vector<Request> expected;
  for (Request r : whole.requests) {
    if (r.arrival >= part.slice_start && r.arrival < part.slice_start + *part.slice_length) {
      r.arrival -= part.slice_start;
      expected.push_back(r);
    }
  }
  REQUIRE(slice.requests.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK_FALSE(slice.requests[i].arrival != expected[i].arrival);
    CHECK_FALSE(slice.requests[i].input_tokens != expected[i].input_tokens);
  }
}

TEST_CASE("a wanted rate scales the clients and leaves the time axis") {
  // One window at 1/s and three at 3/s: mean 2.5/s; at 25/s ten times as many in each.
  const std::string trace = "0,1,1,,0,0\n600,3,1,,0,0\n1200,3,1,,0,0\n1800,3,1,,0,0\n";
  RequestOptions o = options();
  o.rate = RequestsPerSecond(25);
  double first = 0, all = 0;
  for (const Request& r : sample_servegen(pool_of(trace), {}, o).trace.requests) {
    first += seconds_of(r.arrival) < 600 ? 1 : 0;
    ++all;
  }
  CHECK(std::abs(first - 6000) < 5 * std::sqrt(6000.0));
  CHECK(std::abs(all - 60000) < 5 * std::sqrt(60000.0));
}

TEST_CASE("a wanted rate is that of the requests that are kept") {
  // Client 3 has lengths and sends 1/s; client 4 sends 3/s that are skipped. 1200 s at 2/s are 2400 requests.
  const std::string archive = tar_entry("chunk-3-dataset.json", kLengths) +
                              tar_entry("chunk-3-trace.csv", rows(2, "1,1,,0,0")) +
                              tar_entry("chunk-4-trace.csv", rows(2, "3,1,,0,0")) + tar_end();
  ByteInput input = ByteInput::from_memory("pool.tar", archive);
  const ServeGenPool pool = read_servegen_archive(input);
  RequestOptions o = options();
  o.rate = RequestsPerSecond(2);
  ServeGenOptions wanted;
  wanted.skip_missing = true;
  const auto kept = static_cast<double>(sample_servegen(pool, wanted, o).trace.requests.size());
  CHECK(std::abs(kept - 2400) < 5 * std::sqrt(2400.0));
}

TEST_CASE("missing lengths: an error naming the file, or skipped and counted") {
  const test::TempDir folder;
  test::write_text(folder / "chunk-0-trace.csv", rows(2, "1,1,,0,0"));
  test::write_gzip(folder / "chunk-0-dataset.json.gz", kLengths);
  test::write_text(folder / "chunk-1-trace.csv", rows(2, "1,1,,0,0"));
  test::write_text(folder / "notes.txt", "passed over");
  const std::string path = folder.path().string();
  CHECK(contains(message([&] { test::table_of("{kind: servegen}", path); }), "chunk-1-dataset.json is missing"));
  const RequestTrace t = test::table_of("{kind: auto, missing_lengths: skip}", path).trace;
  CHECK(std::abs(static_cast<double>(t.requests.size()) - 1200) < 5 * std::sqrt(1200.0));
  CHECK(contains(t.source, "requests without lengths skipped, " + std::to_string(t.requests.size()) + " drawn"));
  CHECK(test::table_of("{kind: servegen, clients: [0]}", path).trace.requests.size() == t.requests.size());
  CHECK(contains(message([&] { test::table_of("{kind: servegen, clients: [7]}", path); }), "there is no client 7"));
  CHECK(contains(message([&] { test::table_of("{kind: servegen, clients: [1], missing_lengths: skip}", path); }),
                 "no client that has lengths sends anything"));
  const std::string empty = "{\"0\": {\"input_tokens\": \"{}\", \"output_tokens\": \"{}\"}}";
  CHECK(contains(message([&] { sample_servegen(pool_of(rows(1, "1,1,,0,0"), empty), {}, options()); }),
                 "no lengths for this window"));
}

TEST_CASE("pools and slices that cannot be drawn") {
  CHECK(contains(message([] { sample_servegen(pool_of(rows(1000, "1e6,1,,0,0")), {}, options()); }), "at most 1e+08"));
  CHECK(contains(message([] { sample_servegen(pool_of(rows(2, "0,0,,0,0")), {}, options()); }), "sends anything"));
  RequestOptions late = options();
  late.slice_start = std::chrono::hours(2);
  CHECK(contains(message([&] { sample_servegen(pool_of(rows(2, "1,1,,0,0")), {}, late); }), "sends anything"));
  const std::string far = "0,1,1,,0,0\n9000000,1,1,,0,0\n";
  CHECK(contains(message([&] { sample_servegen(pool_of(far), {}, options()); }), "longer than 100 days"));
}

TEST_CASE("rate and length files that are damaged") {
  struct Row {
    std::string trace, lengths, part;
  };
  const std::string good = rows(2, "1,1,,0,0");
  const auto lengths = [](const std::string& in) {
    return "{\"0\": {\"input_tokens\": " + in + ", \"output_tokens\": \"{1: 1.0}\"}}";
  };
  for (const Row& r : {
           Row{"", kLengths, "the file is empty"},
           Row{"0,1,1\n", kLengths, "the row has 3 fields"},
           Row{"x,1,1,,0,0\n", kLengths, "must be numbers"},
           Row{"0,nan,1,,0,0\n", kLengths, "must be numbers"},
           Row{"0,-1,1,,0,0\n", kLengths, "must be numbers"},
           Row{"0,1e300,1,,0,0\n", kLengths, "must be numbers"},
           Row{"0,1,1,Pareto,1,1\n", kLengths, "Gamma, Weibull or nothing"},
           Row{"0,1,1,Gamma,0,1\n", kLengths, "within 0.001 and 1e6"},
           Row{"0,1,1,Weibull,x,1\n", kLengths, "within 0.05 and 1e6"},
           Row{good + "600,1,1,,0,0\n", kLengths, "equal distances"},
           Row{good + "1500,1,1,,0,0\n", kLengths, "equal distances"},
           Row{std::string(3000, '\0'), kLengths, "the row has 1 fields"},
           Row{good, "", "no lengths for this window"},
           Row{good, "{", "not valid JSON"},
           Row{good, "[1]", "must be a JSON object"},
           Row{good, "{\"0\": 5}", "an object of windows"},
           Row{good, "{\"0\": [\"{}\"]}", "an object of windows"},
           Row{good, "{\"x\": {}}", "must be times in seconds"},
           Row{good, "{\"600\": {}, \"600.0\": {}}", "two windows start at 600 s"},
           Row{good, kLengths + kLengths, "a second document"},
           Row{good, lengths("5"), "an object of windows"},
           Row{good, lengths("\"10: 1.0\""), "'{' is missing"},
           Row{good, lengths("\"{10: 1.0\""), "a number is missing"},
           Row{good, lengths("\"{10 1.0}\""), "a number is missing"},
           Row{good, lengths("\"{10: 0.5}\""), "add up to 0.5"},
           Row{good, lengths("\"{-1: 1.0}\""), "within 0 and 2147483647"},
           Row{good, lengths("\"{9223372036854775808: 1.0}\""), "within 0 and 2147483647"},
           Row{good, lengths("\"{1.5: 1.0}\""), "whole number"},
           Row{good, lengths("\"{10: -1.0, 11: 2.0}\""), "not negative"},
           Row{good, lengths("\"{10: nan}\""), "not finite"},
           Row{good, lengths("\"{10: 1.0} x\""), "after the closing brace"},
           Row{good, lengths("\"{0: 1.0}\""), "at least 1 of each"},
       }) {
    CAPTURE(r.trace);
    CAPTURE(r.lengths);
    CHECK(contains(message([&] { sample_servegen(pool_of(r.trace, r.lengths), {}, options()); }), r.part));
  }
  const auto archive = [](const std::string& bytes) {
    return message([&] {
      ByteInput input = ByteInput::from_memory("pool.tar", bytes);
      read_servegen_archive(input);
    });
  };
  CHECK(contains(archive(tar_end()), "no chunk-i-trace.csv"));
  CHECK(contains(archive(""), "no chunk-i-trace.csv"));
  CHECK(contains(archive(tar_entry("chunk-1-dataset.json", kLengths)), "chunk-1-trace.csv is missing"));
  CHECK(contains(archive(tar_entry("a/chunk-1-trace.csv", good) + tar_entry("b/chunk-1-trace.csv", good)), "twice"));
  CHECK(contains(
      archive(tar_entry("chunk-1-trace.csv", good) + tar_entry("chunk-2-trace.csv", "0,1,1,,0,0\n300,1,1,,0,0\n")),
      "not as long"));
}

}  // namespace
}  // namespace epsim
