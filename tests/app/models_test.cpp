// Models whose attention is not full everywhere, and the newer ones, from the command line.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/app/process.h"

namespace epsim::test {
namespace {

std::string on_two_h200_nodes(const std::string& model) {
  return small_scenario() + " --set cluster.node=DGX-H200 --set requests.count=6 --set model.architecture=" + model;
}

}  // namespace

TEST_CASE("each newer model runs, on two nodes of eight H200") {
  for (const char* model :
       {"qwen3-next-80b-a3b", "deepseek-v3.2", "minimax-m2", "glm-4.6", "llama-4-scout", "gpt-oss-120b"}) {
    CAPTURE(model);
    const TempDir dir;
    const Outcome run = run_epsim(dir, "run " + on_two_h200_nodes(model) + " -q -o out");
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    const nlohmann::json summary = nlohmann::json::parse(slurp(dir / "out/summary.json"));
    CHECK(summary.at("requests").at("completed_requests").get<int>() == 6);
  }
}

TEST_CASE("validate says what a request takes beside its tokens") {
  const TempDir dir;
  // Qwen3-Next over 8 GPUs: a state of 36 x 2,146,304 B / 8 per request, and 12 layers x 2 x 1 KV head x 256 x 2 B per
  // token: 9,658,368 / 12,288 = 786 tokens.
  const Outcome done = run_epsim(dir, "validate " + on_two_h200_nodes("qwen3-next"));
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK_MESSAGE(
      done.out.find("of which each request takes 786 for windows and linear-attention states") != std::string::npos,
      done.out);
}

TEST_CASE("requests that share prefixes need the prefix cache off where attention is linear") {
  const TempDir dir;
  const std::string shared = on_two_h200_nodes("qwen3-next") +
                             " --set 'requests={kind: sessions, session_rate: 2/s, count: 6, turns: 3, think_time: 1s, "
                             "max_context: 4096, system_tokens: 64, block_tokens: 16, input_tokens: 300, "
                             "output_tokens: 8}'";
  const Outcome on = run_epsim(dir, "run " + shared + " -o out");
  CHECK(on.exit_code == 2);
  CHECK_MESSAGE(on.err.find("have no prefix cache here") != std::string::npos, on.err);
  const Outcome off = run_epsim(dir, "run " + shared + " --set serving.disable_radix_cache=true -o out");
  CHECK_MESSAGE(off.exit_code == 0, off.err);
}

TEST_CASE("a config.json with a key that nobody understands is refused by name") {
  const TempDir dir;
  std::ofstream(dir / "config.json") << R"({"model_type": "olmoe", "num_hidden_layers": 16, "hidden_size": 2048,
    "num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 50304, "dtype": "bfloat16", "foo_bar": 3})";
  const Outcome done = run_epsim(dir, "validate " + small_scenario() + " --set model.architecture=./config.json");
  CHECK(done.exit_code == 2);
  CHECK_MESSAGE(done.err.find("config.json") != std::string::npos, done.err);
  CHECK_MESSAGE(done.err.find("unknown key 'foo_bar'") != std::string::npos, done.err);
}

}  // namespace epsim::test
