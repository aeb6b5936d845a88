#include "traces/expert_loads/sglang_counts.h"

#include <doctest/doctest.h>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

// Layer 0 dense, layers 1 and 2 MoE with 4 experts, top-2.
const MoeSpec kCountsModel = test::small_model(3, 1, 4, 2);
const std::string kGood = R"({"logical_count": [[0,0,0,0],[1,2.0,3,4],[10,0,20,5]]})";

LoadWindow parse_counts(const std::string& text) {
  ByteInput input = ByteInput::from_memory("counts.json", text);
  return read_sglang_counts(input, kCountsModel);
}

void check_good(const LoadWindow& w) {
  REQUIRE(w.layers() == 2);
  REQUIRE(w.experts() == 4);
  CHECK(w.layer(0)[1] == 2);
  CHECK(w.layer(0)[3] == 4);
  CHECK(w.layer(1)[0] == 10);
  CHECK(w.total(1) == 35);
}

TEST_CASE("rows of the model's layers map to its MoE layers; rows of MoE layers alone are taken as they are") {
  check_good(parse_counts(kGood));
  check_good(parse_counts(R"({"logical_count": [[1,2,3,4],[10,0,20,5]]})"));
  check_good(parse_counts(R"({"rank": [1, {"a": [null, "x"]}], "logical_count": [[1,2,3,4],[10,0,20,5]], "n": true})"));
}

TEST_CASE("a table by step is summed") {
  check_good(parse_counts(R"({"logical_count": [[[0,0,0,0],[1,1,1,1],[9,0,0,5]], [[0,0,0,0],[0,1,2,3],[1,0,20,0]]]})"));
}

TEST_CASE("a file cut off anywhere is an error") {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(message([&] { parse_counts(kGood.substr(0, size)); }), "not valid JSON, or it is cut off"));
  }
}

TEST_CASE("wrong contents are errors that say what was expected") {
  struct Row {
    std::string text, part;
  };
  const std::string start = R"({"logical_count": )";
  for (const Row& r : {
           Row{"garbage", "not valid JSON"},
           Row{std::string(1000, '\0'), "not valid JSON"},
           Row{kGood + "x", "not valid JSON"},
           Row{"[[1]]", "outermost value must be an object"},
           Row{"7", "no table of counts"},
           Row{"{}", "no table of counts"},
           Row{R"({"physical_count": [[1,2,3,4],[10,0,20,5]]})", "no table of counts"},
           Row{start + "[]}", "no table of counts"},
           Row{start + "[[]]}", "empty row"},
           Row{start + "[[],[1,2,3,4],[10,0,20,5]]}", "empty row"},
           Row{start + "5}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "[1,2,3,4]}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "[[[[1,2,3,4]]]]}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "{\"a\": 1}}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "[[1,2,3,4],[[1,2,3,4]]]}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "[[1,2,3,4],[10,0,20,[]]]}", "[layer][expert] or [step][layer][expert]"},
           Row{start + "[[1,2,3,4],[10,0,20,null]]}", "not a number"},
           Row{start + "[[1,2,3,4],[10,0,20,\"5\"]]}", "not a number"},
           Row{start + "[[1,2,3,4],[10,0,20,NaN]]}", "not valid JSON"},
           Row{start + "[[1,2,3,4],[10,0,20,1e999]]}", "beyond what 64 bits hold"},
           Row{start + "[[1,2,3,4],[10,0,20,-1]]}", "expert 3: the count -1 is not a finite number >= 0"},
           Row{start + "[[1,2,3,4],[10,0,20]]}", "layer row 1 has 3 experts; toy has 4"},
           Row{start + "[[1,2,3,4],[10,0,20,5,6]]}", "layer row 1 has 5 experts; toy has 4"},
           Row{start + "[[1,2,3,4]]}", "1 layer rows; toy has 3 layers, 2 of them MoE"},
           Row{start + "[[0,0,0,0],[1,2,3,4],[1,2,3,4],[1,2,3,4]]}", "more layer rows than the 3 layers"},
           Row{start + "[[1,0,0,0],[1,2,3,4],[10,0,20,5]]}", "layer row 0 has load, yet it is a dense layer"},
           Row{start + "[[0,0,0,0],[1,2,3,4],[0,0,0,0]]}", "model layer 2 is a MoE layer of toy, yet all"},
           Row{R"({"logical_count": [[1,2,3,4],[10,0,20,5]], "logical_count": [[1,2,3,4],[10,0,20,5]]})",
               "occurs twice"},
       }) {
    CAPTURE(r.text);
    CHECK(contains(message([&] { parse_counts(r.text); }), r.part));
  }
}

TEST_CASE("endless brackets, digits and blanks end in an error, not in full memory") {
  CHECK(contains(message([] { parse_counts(R"({"a": )" + std::string(100000, '[')); }), "nested deeper than 64"));
  CHECK(contains(message([] { parse_counts(R"({"logical_count": [[)" + std::string(100000, '1')); }),
                 "more than 65536 bytes"));
  CHECK(contains(message([] { parse_counts(R"({"a": ")" + std::string(100000, 'x')); }), "more than 65536 bytes"));
  CHECK(contains(message([] { parse_counts(std::string(100000, ' ')); }), "more than 65536 bytes"));
}

TEST_CASE("read through the scenario: gzip too, and no expert takes more than every token") {
  const test::TempDir folder;
  test::write_gzip(folder / "counts.json.gz", kGood);
  const auto read = [&](const std::string& name) {
    Config config = Config::from_text("{kind: sglang_counts}", "loads.yaml");
    config.set("path=" + (folder / name).string());
    ConfigReader in = config.root();
    LoadWindow window = read_load_window(in, kCountsModel, Seed{1});
    in.finish();
    return window;
  };
  CHECK(contains(message([&] { read("none.json"); }), "there is no such file"));
  // Layer 2: 20 of 35 assignments with top-2 are 1.143 per token.
  CHECK(contains(message([&] { read("counts.json.gz"); }),
                 "model layer 2, expert 2: it takes 1.143 assignments per token; with top-2"));
  test::write_gzip(folder / "fine.json.gz", R"({"logical_count": [[1,2,3,4],[10,0,20,10]]})");
  CHECK(read("fine.json.gz").total(1) == 40);
}

}  // namespace
}  // namespace epsim
