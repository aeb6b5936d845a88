#include "sim/serving/serving_options.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/core/error.h"

namespace epsim {
namespace {

ServingOptions read(const std::string& text, int dp_ranks = 8) {
  ConfigReader root = Config::from_text(text, "test.yaml").root();
  ConfigReader serving = root.section("serving");
  const ServingOptions out = read_serving_options(serving, dp_ranks);
  root.finish();
  return out;
}

}  // namespace

TEST_CASE("serving options have the engine's defaults") {
  const ServingOptions options = read("{}");
  CHECK(options.dp_ranks == 8);
  CHECK(options.chunked_prefill_size == 4096);
  CHECK(options.mixed_chunk);
  CHECK(options.max_running_requests == 0);
  CHECK(options.router == Router::kRoundRobin);
  CHECK(options.step_gap == Seconds{0});
}

TEST_CASE("serving options are read") {
  const ServingOptions options = read(
      "serving: {engine: sglang_0_4_8, chunked_prefill_size: 512, mixed_chunk: false, max_running_requests: 64,\n"
      "          router: least_tokens, step_gap: 250us}");
  CHECK(options.chunked_prefill_size == 512);
  CHECK_FALSE(options.mixed_chunk);
  CHECK(options.max_running_requests == 64);
  CHECK(options.router == Router::kLeastTokens);
  CHECK(options.step_gap.count() == doctest::Approx(250e-6));
}

TEST_CASE("serving options that make no sense are refused where they stand") {
  struct Bad {
    const char* text;
    const char* key;
  };
  for (const Bad& bad :
       {Bad{"serving: {engine: vllm_v9}", "serving.engine"},
        Bad{"serving: {chunked_prefill_size: 0}", "serving.chunked_prefill_size"},
        Bad{"serving: {max_running_requests: -1}", "serving.max_running_requests"},
        Bad{"serving: {mixed_chunk: 3}", "serving.mixed_chunk"}, Bad{"serving: {router: random}", "serving.router"},
        Bad{"serving: {step_gap: 5}", "serving.step_gap"},
        Bad{"serving: {chunk_prefill_size: 4096}", "serving.chunk_prefill_size"}}) {
    CAPTURE(bad.text);
    try {
      read(bad.text);
      FAIL("the options were accepted");
    } catch (const InputError& error) {
      CHECK(error.place.key == bad.key);
      CHECK(error.place.line == 1);
    }
  }
}

}  // namespace epsim
