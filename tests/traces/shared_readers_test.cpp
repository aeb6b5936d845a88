// Readers on the real files of the shared data folder.
#include <doctest/doctest.h>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/expert_loads/sglang_counts.h"
#include "traces/requests/sources.h"

namespace epsim {
namespace {

TEST_CASE("Azure 2023: row counts and mean lengths as its SOURCE.md states") {
  struct Row {
    const char* name;
    std::size_t rows;
    double mean_in, mean_out;
  };
  for (const Row& r : {Row{"code", 8819, 2048, 28}, Row{"conv", 19366, 1155, 211}}) {
    CAPTURE(r.name);
    ByteInput input(test::shared_dir() / "data/azure-llm-2023" /
                    (std::string("AzureLLMInferenceTrace_") + r.name + ".csv"));
    const RequestTrace t = read_azure_csv(input, {}).trace;
    REQUIRE(t.requests.size() == r.rows);
    double in = 0, out = 0;
    for (const Request& q : t.requests) {
      in += q.input_tokens;
      out += q.output_tokens;
    }
    CHECK(in / static_cast<double>(r.rows) == doctest::Approx(r.mean_in).epsilon(0.001));
    CHECK(out / static_cast<double>(r.rows) == doctest::Approx(r.mean_out).epsilon(0.01));
    CHECK(to_seconds(t.requests.back().arrival).count() > 3400);
  }
}

TEST_CASE("SGLang counts: totals as EXPERT_LOAD_STATS.csv states") {
  struct Row {
    const char* name;
    double total;
  };
  for (const Row& r :
       {Row{"prefill_in4096", 3892314112}, Row{"prefill_in512", 3892314112}, Row{"decode_in500out1500", 12820119552}}) {
    CAPTURE(r.name);
    ByteInput input(test::shared_dir() / "data/sglang-ep-statistics" / (std::string(r.name) + ".json"));
    const LoadWindow w = read_sglang_counts(input, test::deepseek_r1_shape());
    double total = 0;
    for (int l = 0; l < w.layers(); ++l) {
      total += w.total(l);
    }
    CHECK(total == r.total);
  }
}

}  // namespace
}  // namespace epsim
