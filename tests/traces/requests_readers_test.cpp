// Mooncake, BurstGPT, generic tables, trace files, and telling kinds apart.
#include <doctest/doctest.h>

#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/support.h"
#include "traces/format/trace_file.h"
#include "traces/requests/detect.h"
#include "traces/requests/sources.h"

namespace epsim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::contains;
using test::message;

RequestTable mooncake(const std::string& text) {
  RequestOptions o;
  o.equal_times = EqualTimes::kKeep;
  ByteInput input = ByteInput::from_memory("m.jsonl", text);
  return read_mooncake_jsonl(input, 512, o);
}

TEST_CASE("Mooncake: times in ms, lengths and blocks exact; other fields are passed over") {
  const RequestTable t = mooncake(
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [46, 47]}\n"
      "{\"timestamp\": 27, \"input_length\": 513, \"output_length\": 6, \"hash_ids\": [46, 9007199254740993], "
      "\"more\": {\"timestamp\": [3, {}]}}\n\n"
      "{\"hash_ids\": [], \"output_length\": 7, \"input_length\": 1, \"timestamp\": 27.5}");
  REQUIRE(t.trace.requests.size() == 3);
  CHECK(t.trace.requests[1].arrival == milliseconds(27));
  CHECK(t.trace.requests[1].input_tokens == 513);
  CHECK(t.trace.requests[1].output_tokens == 6);
  CHECK(t.trace.requests[2].arrival == std::chrono::microseconds(27500));
  CHECK(t.block_tokens == 512);
  CHECK(t.prefix_start == std::vector<std::int64_t>{0, 2, 4, 4});
  CHECK(t.prefix_blocks == std::vector<std::int64_t>{46, 47, 46, 9007199254740993});  // 2^53 + 1: no double on the way
}

TEST_CASE("Mooncake without hashes has no prefix blocks") {
  const RequestTable t = mooncake("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 5}");
  CHECK(t.block_tokens == 0);
  CHECK(t.prefix_start.empty());
}

TEST_CASE("files that are no Mooncake trace") {
  struct Row {
    std::string text, part;
  };
  const std::string good = "{\"timestamp\": 5, \"input_length\": 1, \"output_length\": 5}\n";
  const auto with = [](const std::string& time, const std::string& in) {
    return "{\"timestamp\": " + time + ", \"input_length\": " + in + ", \"output_length\": 5}\n";
  };
  for (const Row& r : {
           Row{"", "holds no request"},
           Row{std::string(100, '\0'), "must be a JSON object"},
           Row{"[1, 2]", "each document must be a JSON object"},
           Row{"5", "each document must be a JSON object"},
           Row{"{\"timestamp\": 1", "not valid JSON"},
           Row{good + "{\"timestamp\": 6}", "m.jsonl:2: `input_length`: this field is required"},
           Row{good + with("4", "1"), "m.jsonl:2: this row's time is before"},
           Row{with("-1", "1"), "within 0 and 100 days"},
           Row{with("NaN", "1"), "this must be a finite number"},
           Row{with("1e999", "1"), "not valid JSON"},
           Row{with("1e300", "1"), "within 0 and 100 days"},
           Row{with("\"x\"", "1"), "this must be a finite number"},
           Row{with("1", "9223372036854775808"), "whole number within 64 bits"},   // 2^63
           Row{with("1", "18446744073709551616"), "whole number within 64 bits"},  // 2^64
           Row{with("1", "1.5"), "whole number"},
           Row{with("1", "-3"), "-3 input"},
           Row{with("1", "0"), "at least 1 of each"},
           Row{with("1", "1, \"input_length\": 2"), "occurs twice"},
           Row{with("1", "1, \"hash_ids\": [1.5]"), "item 1 of the list is not a whole number"},
           Row{with("1", "1, \"hash_ids\": [\"a\"]"), "item 1 of the list is not a whole number"},
           Row{with("1", "1, \"hash_ids\": [1, 2]"), "1 input tokens fill at most 1"},
           Row{good + with("6", "1, \"hash_ids\": [1]"), "either all requests of a file have this list or none"},
       }) {
    CAPTURE(r.text);
    CHECK(contains(message([&] { mooncake(r.text); }), r.part));
  }
}

const std::string kBurst =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n"
    "45,GPT-4,1087,230,1317,API log\n"
    "45,ChatGPT,417,276,693,Conversation log\n"
    "118.5,ChatGPT,1360,0,1360,Conversation log\n";

RequestTable burst(const std::string& keys, const std::string& text = kBurst) {
  const test::TempDir folder;
  test::write_text(folder / "b.csv", text);
  return test::table_of("{kind: burstgpt_csv, " + keys + "}", (folder / "b.csv").string());
}

TEST_CASE("BurstGPT: seconds from the first row; failed requests are an error or dropped and counted") {
  CHECK(contains(message([] { burst(""); }), "b.csv:5"));
  CHECK(contains(message([] { burst(""); }), "1360 input and 0 output tokens"));
  const RequestTrace t = burst("drop_zero_tokens: true").trace;
  REQUIRE(t.requests.size() == 3);
  CHECK(t.requests[0].arrival == seconds(0));
  CHECK(t.requests[1].arrival == seconds(40));
  CHECK(t.requests[2].arrival == seconds(40));  // the clock is coarse: equal times are kept
  CHECK(t.requests[2].output_tokens == 276);
  CHECK(contains(t.source, "(1 of 4 rows dropped"));
}

TEST_CASE("BurstGPT: models and log types can be picked; the time axis stays") {
  const RequestTrace gpt4 = burst("models: [GPT-4]").trace;
  REQUIRE(gpt4.requests.size() == 1);
  CHECK(gpt4.requests[0].arrival == seconds(40));
  CHECK(gpt4.requests[0].input_tokens == 1087);
  CHECK(burst("log_types: [Conversation log], drop_zero_tokens: true").trace.requests.size() == 2);
  CHECK(contains(message([] { burst("models: [Claude]"); }),
                 "no row matches `models` and `log_types`. The file has the models ChatGPT, GPT-4 and the log types "
                 "API log, Conversation log."));
}

TEST_CASE("files that are no BurstGPT trace") {
  const std::string head = kBurst.substr(0, kBurst.find('\n') + 1);
  struct Row {
    std::string text, part;
  };
  for (const Row& r : {
           Row{"", "the file is empty"},
           Row{head, "holds no request"},
           Row{head + "1,m,1,2,4,l\n", "must add up to the total"},
           Row{head + "1,m,-1,2,1,l\n", "must not be negative"},
           Row{head + "1,m,9223372036854775807,1,-9223372036854775808,l\n", "add up"},
           Row{head + "1,m,9223372036854775808,1,1,l\n", "not a whole number"},
           Row{head + "nan,m,1,1,2,l\n", "not a finite number"},
           Row{head + "5,m,1,1,2,l\n4,m,1,1,2,l\n", "before the first one's"},
           Row{head + "5,m,1,1,2,l\n9,m,1,1,2,l\n8,m,1,1,2,l\n", "sorted"},
           Row{head + "5,m,1,1,2,l\n1e7,m,1,1,2,l\n", "more than 100 days"},
           Row{head + "5,m,1,1,2\n", "5 fields"},
           Row{"Timestamp,Model\n", "no column 'Log Type'"},
       }) {
    CAPTURE(r.text);
    CHECK(contains(message([&] { burst("", r.text); }), r.part));
  }
}

RequestTable table(const std::string& text, const CsvColumns& columns) {
  RequestOptions o;
  o.equal_times = EqualTimes::kKeep;
  ByteInput input = ByteInput::from_memory("t.csv", text);
  return read_request_csv(input, columns, o);
}

TEST_CASE("any table: columns by name or number, any unit of time") {
  struct Row {
    std::string unit, first, second;
    Ticks gap;
  };
  for (const Row& r : {
           Row{"s", "10", "12.5", milliseconds(2500)},
           Row{"ms", "7", "9", milliseconds(2)},
           Row{"us", "1", "2", std::chrono::microseconds(1)},
           // A Unix clock in ns: 1.7e18 has no exact double, the difference of 1 ns must survive.
           Row{"ns", "1700000000123456789", "1700000000123456790", std::chrono::nanoseconds(1)},
           Row{"min", "0", "3", std::chrono::minutes(3)},
           Row{"h", "100", "102", std::chrono::hours(2)},
           Row{"date", "2024-05-10 00:00:00.009930+00:00", "2024-05-10T00:00:01.009930Z", seconds(1)},
       }) {
    CAPTURE(r.unit);
    const std::string text = "when,who,out,in\n" + r.first + ",a,1,2\n" + r.second + ",b,3,4\n";
    const RequestTrace named = table(text, {"when", "in", "out", r.unit, true}).trace;
    CHECK(named.requests[1].arrival == r.gap);
    CHECK(named.requests[1].input_tokens == 4);
    CHECK(named.requests[1].output_tokens == 3);
    const RequestTrace numbered = table(text, {"0", "3", "2", r.unit, true}).trace;
    CHECK(numbered.requests[1].input_tokens == 4);
  }
  const RequestTrace bare = table("5,20,30\n6,21,31\n", {"0", "1", "2", "s", false}).trace;
  REQUIRE(bare.requests.size() == 2);
  CHECK(bare.requests[0].input_tokens == 20);
  CHECK(bare.requests[1].arrival == seconds(1));
}

TEST_CASE("tables that hold something else") {
  struct Row {
    std::string text, unit, part;
  };
  for (const Row& r : {
           Row{"a,b,c\nx,1,1\n", "s", "this is no finite number, the time in s"},
           Row{"a,b,c\nnan,1,1\n", "s", "t.csv:2: `a`: this is no finite number"},
           Row{"a,b,c\n5,1,1\n4,1,1\n", "s", "not ahead of it"},
           Row{"a,b,c\n0,1,1\n9000000,1,1\n", "s", "within 100 days"},
           Row{"a,b,c\n-9223372036854775808,1,1\n9223372036854775807,1,1\n", "ns", "within 100 days"},
           Row{"a,b,c\n-4611686018427387903,1,1\n4611686018427387903,1,1\n", "h", "within 100 days"},
           Row{"a,b,c\n1,1.5,1\n", "s", "`b`: a number of tokens is a whole number"},
           Row{"a,b,c\n1,1,99999999999999999999\n", "s", "`c`: a number of tokens"},
           Row{"a,b,c\n5,1,1\n", "date", "this is no date like"},
           Row{"x,b,c\n5,1,1\n", "s", "no column 'a'"},
       }) {
    CAPTURE(r.text);
    CHECK(contains(message([&] { table(r.text, {"a", "b", "c", r.unit, true}); }), r.part));
  }
}

TEST_CASE("a trace file gives back the requests and prefix blocks that were written, and takes options") {
  const test::TempDir folder;
  const std::string file = (folder / "t.h5").string();
  const RequestTable made = mooncake(
      "{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 5, \"hash_ids\": [1, 2]}\n"
      "{\"timestamp\": 1000, \"input_length\": 700, \"output_length\": 6, \"hash_ids\": [1, 3]}\n");
  TraceFileWriter writer(file);
  writer.requests(made);
  writer.commit();
  const RequestTable back = test::table_of("{kind: trace_file}", file);
  CHECK(back.prefix_blocks == made.prefix_blocks);
  CHECK(back.prefix_start == made.prefix_start);
  CHECK(back.block_tokens == 512);
  REQUIRE(back.trace.requests.size() == 2);
  CHECK(back.trace.requests[1].arrival == seconds(1));
  CHECK(back.trace.requests[1].input_tokens == 700);
  const RequestTable late = test::table_of("{kind: trace_file, slice_start: 500ms, time_scale: 2}", file);
  REQUIRE(late.trace.requests.size() == 1);
  CHECK(late.trace.requests[0].arrival == milliseconds(250));
  CHECK(late.prefix_blocks == std::vector<std::int64_t>{1, 3});
  CHECK(test::table_of("{kind: auto}", file).trace.requests.size() == 2);
}

TEST_CASE("kinds are told from the first bytes") {
  CHECK(kind_of_bytes("TIMESTAMP,ContextTokens,GeneratedTokens\n") == "azure_csv");
  CHECK(kind_of_bytes("\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n") == "azure_csv");
  CHECK(kind_of_bytes("Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n") ==
        "burstgpt_csv");
  CHECK(kind_of_bytes("{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 2, \"hash_ids\": []}") ==
        "mooncake_jsonl");
  CHECK(kind_of_bytes("{\"date\": \"x\", \"input_lens\": [1]}") == "benchmark_jsonl");
  CHECK(kind_of_bytes("\x89HDF\r\n\x1a\n") == "trace_file");
  CHECK(kind_of_bytes("a,b,c\n").empty());
  CHECK(kind_of_bytes("").empty());
}

TEST_CASE("auto reads what it recognises, gzipped or not, with the kind's own options") {
  const test::TempDir folder;
  const std::string file = (folder / "b.csv.gz").string();
  test::write_gzip(file, kBurst);
  CHECK(test::table_of("{kind: auto, models: [GPT-4]}", file).trace.requests.size() == 1);
  test::write_text(folder / "x.txt", "nothing,of,ours\n");
  CHECK(contains(message([&] { test::table_of("{kind: auto}", (folder / "x.txt").string()); }), "kind: csv"));
  CHECK(contains(message([&] { test::table_of("{kind: auto}", (folder / "none").string()); }), "no such file"));
}

}  // namespace
}  // namespace epsim
