#include <doctest/doctest.h>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/sources.h"

namespace epsim {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::contains;
using test::message;

const std::string kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const std::string kFour = kHeader +
                          "2023-12-31 23:59:59.9000001,100,10\r\n"
                          "2024-01-01 00:00:00.9000002,200,20\r\n"
                          "2024-01-01 00:00:02.9000001,300,30\r\n"
                          "2024-01-01 00:00:03.9000001,400,40";  // no line end, as in Azure's own files

RequestTrace parse(const std::string& text, const RequestOptions& options = {}) {
  ByteInput input = ByteInput::from_memory("azure.csv", text);
  return read_azure_csv(input, options).trace;
}

RequestTrace read_with(const std::string& keys, const std::string& text = kFour) {
  const test::TempDir folder;
  test::write_text(folder / "azure.csv", text);
  Config config = Config::from_text("{kind: azure_csv, " + keys + "}", "requests.yaml");
  config.set("path=" + (folder / "azure.csv").string());
  ConfigReader in = config.root();
  RequestTrace trace = read_requests(in, Seed{1});
  in.finish();
  return trace;
}

TEST_CASE("arrivals are exact to the 100 ns of the file, across a year's end") {
  const RequestTrace t = parse(kFour);
  REQUIRE(t.requests.size() == 4);
  CHECK(t.source == "azure.csv");
  CHECK(t.requests[0].arrival == Ticks{0});
  CHECK(t.requests[1].arrival == seconds(1) + nanoseconds(100));
  CHECK(t.requests[2].arrival == seconds(3));
  CHECK(t.requests[3].arrival == seconds(4));
  CHECK(t.requests[3].input_tokens == 400);
  CHECK(t.requests[3].output_tokens == 40);
}

TEST_CASE("slices, scales and clips") {
  // Arrivals are 0, 1.0000001, 3 and 4 s.
  const RequestTrace slice = read_with("slice_start: 1s, slice_length: 3s");
  REQUIRE(slice.requests.size() == 2);  // 4 s is outside [1, 4)
  CHECK(slice.requests[0].arrival == nanoseconds(100));
  CHECK(slice.requests[1].arrival == seconds(2));

  const RequestTrace twice = read_with("time_scale: 2");
  CHECK(twice.requests[1].arrival == std::chrono::milliseconds(500) + nanoseconds(50));
  CHECK(twice.requests[3].arrival == seconds(2));

  // 3 gaps in 4 s are 0.75/s; at 1.5/s everything comes twice as fast.
  CHECK(read_with("rate: 1.5/s").requests[3].arrival == seconds(2));

  const RequestTrace clipped = read_with("max_input_tokens: 250, max_output_tokens: 15");
  CHECK(clipped.requests[0].input_tokens == 100);
  CHECK(clipped.requests[3].input_tokens == 250);
  CHECK(clipped.requests[3].output_tokens == 15);
  CHECK(contains(clipped.source, "(3 requests clipped)"));  // outputs 20, 30, 40

  CHECK(contains(message([] { read_with("rate: 2/s, time_scale: 2"); }), "exclude each other"));
  CHECK(contains(message([] { read_with("slice_start: 1h"); }), "none of the 4 rows is left"));
  CHECK(contains(message([] { read_with("time_scale: 0"); }), "greater than 0"));
  CHECK(contains(message([] { read_with("time_scale: 1e-9"); }), "longer than a run can be"));
  CHECK(contains(message([] { read_with("rate: 1/s, slice_length: 1ms"); }), "all arrive at once"));
}

TEST_CASE("zero-token requests: an error naming the line, or dropped and counted") {
  const std::string text = kFour + "\n2024-01-01 00:00:04.9000001,0,40\n2024-01-01 00:00:05.9000001,7,0\n";
  const InputError e = test::input_error([&] { read_with("", text); });
  CHECK(e.place.line == 6);
  CHECK(contains(e.what(), "0 input and 40 output tokens"));
  const RequestTrace t = read_with("drop_zero_tokens: true", text);
  CHECK(t.requests.size() == 4);
  CHECK(contains(t.source, "(2 of 6 rows dropped: no input or output tokens)"));
}

TEST_CASE("unsorted and equal timestamps are errors naming the line; equal ones can be kept") {
  const std::string equal = kFour + "\n2024-01-01 00:00:03.9000001,1,1\n";
  CHECK(test::input_error([&] { read_with("", equal); }).place.line == 6);
  CHECK(contains(message([&] { read_with("", equal); }), "same time as the one ahead"));
  CHECK(read_with("equal_timestamps: keep", equal).requests.size() == 5);
  const std::string unsorted = kFour + "\n2024-01-01 00:00:03.9000000,1,1\n";
  CHECK(contains(message([&] { read_with("equal_timestamps: keep", unsorted); }), "azure.csv:6"));
  CHECK(contains(message([&] { read_with("", unsorted); }), "sorted by arrival"));
  CHECK(contains(message([&] { parse(kHeader + "2024-01-02 00:00:00,1,1\n2024-01-01 00:00:00,1,1\n"); }), "sorted"));
}

TEST_CASE("files that are no Azure trace") {
  struct Row {
    std::string text, part;
  };
  const std::string row = "2024-01-01 00:00:00,1,1\n";
  for (const Row& r : {
           Row{"", "azure.csv:1: the file is empty"},
           Row{kHeader, "holds no request"},
           Row{std::string("\x7f"
                           "ELF\0\1\2",
                           7),
               "no column 'TIMESTAMP'"},
           Row{"time,in,out\n", "no column 'TIMESTAMP'"},
           Row{kHeader + "2024-01-01 00:00:00,1\n", "2 fields, the header 3"},
           Row{kHeader + "2024-01-01 00:00:00,x,1\n", "azure.csv:2: `ContextTokens`: 'x' is not a whole number"},
           Row{kHeader + "2024-01-01 00:00:00,-5,1\n", "azure.csv:2: `ContextTokens`: -5 tokens"},
           Row{kHeader + "2024-01-01 00:00:00,nan,1\n", "'nan' is not a whole number"},
           Row{kHeader + "2024-01-01 00:00:00,4294967296,1\n", "within 0 and 2147483647"},
           Row{kHeader + "2024-01-01 00:00:0x,1,1\n", "this is not a time"},
           Row{kHeader + "2024-02-30 00:00:00,1,1\n", "this is not a time"},
           Row{kHeader + "2024-01-01 24:00:00,1,1\n", "this is not a time"},
           Row{kHeader + "2024-01-01 00:00:00.,1,1\n", "this is not a time"},
           Row{kHeader + "2024-01-01 00:00:00.1234567890,1,1\n", "this is not a time"},
           Row{kHeader + "2024-01-01,1,1\n", "this is not a time"},
           Row{kHeader + row + "2019-07-01 00:00:00,1,1\n", "before the first one's"},  // 4.5 years: no overflow
           Row{kHeader + row + "2024-07-01 00:00:00,1,1\n", "more than 100 days"},
       }) {
    CAPTURE(r.text);
    CHECK(contains(message([&] { parse(r.text); }), r.part));
  }
}

TEST_CASE("a missing file is named") {
  const Config config = Config::from_text("{kind: azure_csv, path: no/such.csv}", "requests.yaml");
  ConfigReader in = config.root();
  CHECK(contains(message([&] { read_requests(in, Seed{1}); }), "no/such.csv: there is no such file"));
}

}  // namespace
}  // namespace epsim
