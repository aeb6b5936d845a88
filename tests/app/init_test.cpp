// `epsim init`: what it writes is accepted by the other verbs.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/app/process.h"
#include "tests/support/errors.h"

namespace epsim::test {

TEST_CASE("init writes a scenario that validate and run accept, with the engine's defaults and their sources") {
  const TempDir dir;
  const std::string model = "init --model olmoe-1b-7b --node DGX-H200 --dtype bf16 ";
  REQUIRE(run_epsim(dir, model + "--engine sglang --nodes 2 -o whole.yaml").exit_code == 0);
  // 8192 over 16 DP ranks.
  check_contains(slurp(dir / "whole.yaml"),
                 {"engine: sglang", "# chunked_prefill_size: 512  # default: SGLang v0.5.9 on H200",
                  "# transport: deepep_auto  # default: "});
  check_contains(run_epsim(dir, "validate whole.yaml").out, {"16 GPUs, 8 of each DGX-H200", "the scenario is valid"});
  CHECK(run_epsim(dir, "run whole.yaml -q --set requests.count=5").exit_code == 0);
  REQUIRE(run_epsim(dir, model + "--pd 1:2 -o apart.yaml").exit_code == 0);
  check_contains(run_epsim(dir, "validate apart.yaml").out,
                 {"24 GPUs", "1 x prefill instance of 1 x 8 GPUs", "1 x decode instance of 2 x 8 GPUs"});
  CHECK(run_epsim(dir, model + "--pd 1:2 -o apart.yaml").exit_code == 2);
  CHECK(run_epsim(dir, model + "--pd 1-2").exit_code == 2);
  const Outcome both = run_epsim(dir, model + "--pd 1:2 --nodes 4");  // 3 nodes or 4
  CHECK(both.exit_code == 2);
  check_contains(both.err, {"`nodes`: --pd says how many nodes", "give one of the two"});
  CHECK(run_epsim(dir, "init --node DGX-H200").exit_code == 2);
  CHECK(run_epsim(dir, "init --model olmoe-1b-7b --node DGX-H200 --nodes 0").err ==
        "epsim: `nodes`: 0 nodes: an instance has at least one.\n");
  // 1 TB of weights do not fit into 8 x 80 GB; DeepSeek-R1's 84 GiB a GPU do not fit into 0.6 of the H200's 140.
  const Outcome less = run_epsim(dir, "init --model deepseek-r1 --node DGX-H200 --serving mem_fraction_static=0.6");
  CHECK(less.exit_code == 2);
  check_contains(less.err, {"GPU 0 cannot hold", "make room. So does a mem_fraction_static of 0."});
  const Outcome large = run_epsim(dir, "init --model kimi-k2 --node DGX-H100 -o large.yaml");
  CHECK(large.exit_code == 2);
  check_contains(large.err, {"cannot hold"});
  CHECK(large.err.find("mem_fraction") == std::string::npos);  // of no use
  CHECK(run_epsim(dir, "validate large.yaml").exit_code == 2);
  // A rack: 256 experts do not divide over its 72 GPUs, and SGLang's own reserve for 72 DP ranks leaves nothing.
  const Outcome all = run_epsim(dir, "init --model deepseek-r1 --node GB200-NVL72");
  CHECK(all.exit_code == 2);
  check_contains(all.err, {"`gpus`: GB200-NVL72 is a rack of 72 GPUs", "--gpus 8"});
  CHECK(run_epsim(dir, "init --model deepseek-r1 --node GB200-NVL72 --gpus 73").exit_code == 2);
  CHECK(run_epsim(dir, "init --model olmoe-1b-7b --node DGX-H200 --gpus -3").exit_code == 2);
  REQUIRE(run_epsim(dir, "init --model deepseek-r1 --node GB200-NVL72 --gpus 8 -o eight.yaml").exit_code == 0);
  check_contains(run_epsim(dir, "validate eight.yaml").out, {"8 GPUs, 8 of each GB200-NVL72", "the scenario is valid"});
  const Outcome whole = run_epsim(dir, "validate eight.yaml --set cluster.gpus_per_node=72");
  check_contains(whole.err, {"`serving.mem_fraction_static`: SGLang v0.5.9 on GB200, 72 GPUs", "reserves all"});
}

TEST_CASE("init --serving writes keys into every section `serving`, as where the engine's reserve leaves nothing") {
  const TempDir dir;
  const std::string apart = "init --model deepseek-r1 --node DGX-H100 --pd 4:8 -o apart.yaml";
  const Outcome none = run_epsim(dir, apart);
  CHECK(none.exit_code == 2);
  check_contains(none.err,
                 {"reserves all of the memory", "(cuda_graph_max_bs 128 leaves 0.", "Give it by --serving KEY=VALUE."});
  REQUIRE(run_epsim(dir, apart + " --serving mem_fraction_static=0.8").exit_code == 0);
  const std::string written = slurp(dir / "apart.yaml");
  check_contains(written, {"\n  mem_fraction_static: 0.8\n",
                           "prefill: {instances: 1, nodes: 4, serving: {mem_fraction_static: 0.8}}",
                           "decode: {instances: 1, nodes: 8, serving: {mem_fraction_static: 0.8}}"});
  CHECK(written.find("# mem_fraction_static") == std::string::npos);
  CHECK(run_epsim(dir, "validate apart.yaml").exit_code == 0);
  const Outcome hidden = run_epsim(dir, "validate apart.yaml --set serving.chunked_prefill_size=4096");
  check_contains(hidden.err,
                 {"`serving`: chunked_prefill_size has no effect on prefill instances, whose settings are those of "
                  "deployment.prefill.serving",
                  "on decode instances"});
  const Outcome small = run_epsim(dir, "validate apart.yaml --set deployment.decode.serving.mem_fraction_static=0.4");
  check_contains(small.err,
                 {"decode instances: mem_fraction_static is 0.4: 48 of a GPU's 80 GiB are left to CUDA graphs"});
  check_contains(run_epsim(dir, "init --model olmoe-1b-7b --node DGX-H200 --serving mem_fraction_static=").err,
                 {"KEY=VALUE"});
  // Over what the engine's guides state.
  REQUIRE(
      run_epsim(dir,
                "init --model olmoe-1b-7b --node DGX-H200 --engine trtllm --serving cuda_graph_padding_enabled=false "
                "-o trt.yaml")
          .exit_code == 0);
  check_contains(slurp(dir / "trt.yaml"), {"\n  cuda_graph_padding_enabled: false\n"});
}

// Its experts take most of 8 H200s: attention on every GPU leaves too little beside them.
TEST_CASE("init writes an attention TP, and names the one with which a model fits") {
  const TempDir dir;
  const Outcome none = run_epsim(dir, "init --model kimi-k2 --node p5en.48xlarge -o one.yaml");
  CHECK(none.exit_code == 2);
  check_contains(none.err, {"So does --attention-tp "});
  REQUIRE(run_epsim(dir, "init --model kimi-k2 --node p5en.48xlarge --attention-tp 8 -o one.yaml").exit_code == 0);
  check_contains(slurp(dir / "one.yaml"), {"attention_tp: 8"});
  CHECK(run_epsim(dir, "validate one.yaml").exit_code == 0);
  check_contains(run_epsim(dir, "init --model kimi-k2 --node p5en.48xlarge --attention-tp 0").err, {"attention-tp"});
  check_contains(run_epsim(dir, "init --model llama-3.1-70b --node p5en.48xlarge --attention-tp 2").err,
                 {"attention-tp", "dense"});
}

TEST_CASE(
    "what init writes plans from another window than the run's; where policies plan from their own, that is said") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "init --model olmoe-1b-7b --node DGX-H200 -o one.yaml").exit_code == 0);
  const std::string validate = "validate one.yaml --policies base,eplb ";
  CHECK(run_epsim(dir, validate).err.find("very loads") == std::string::npos);
  check_contains(run_epsim(dir, validate + "--set plan_loads.drift=0").err,
                 {"warning: policies plan from the very loads that the run is scored on"});
  CHECK(run_epsim(dir, "validate one.yaml --policies base,oracle --set plan_loads.drift=0").err.empty());
  CHECK(run_epsim(dir, validate + "--set 'loads={kind: uniform}' --set 'plan_loads={kind: uniform}'").err.empty());
}

TEST_CASE("errors in what init would write name a key, and no line of a file that nobody has") {
  const Outcome told = run_epsim(TempDir(), "init --model olmoe-1b-7b --node DGX-H200 --engine sglng");
  CHECK(told.exit_code == 2);
  CHECK(told.err.starts_with("epsim: `serving.engine`: unknown value 'sglng'."));
}

constexpr const char* kOwnModel = R"({"model_type": "olmoe", "num_hidden_layers": 16, "hidden_size": 2048,
    "num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 50304, "torch_dtype": "bfloat16"})";

TEST_CASE("init takes the type of a checkpoint from its config.json, or from the folder that holds it") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "mine");
  std::ofstream(dir / "mine/config.json") << kOwnModel;
  for (const char* model : {"mine", "./mine/config.json"}) {
    CAPTURE(model);
    const Outcome own = run_epsim(dir, std::string("init --node DGX-H200 --model ") + model);
    CHECK_MESSAGE(own.exit_code == 0, own.err);
    check_contains(own.out, {"/mine/config.json", "\n  dtype: bf16  # of the weights", "\nname: mine-DGX-H200\n"});
    check_contains(run_epsim(dir, std::string("init --node DGX-H200 --dtype fp8 --model ") + model).out,
                   {"\n  dtype: fp8  #"});
  }
}

TEST_CASE("init names the option that is wrong") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "empty");
  const auto refused = [&](const std::string& words, const char* why) {
    const Outcome told = run_epsim(dir, "init --node DGX-H100 " + words);
    CHECK(told.exit_code == 2);
    check_contains(told.err, {why});
  };
  refused("--model empty", "empty: `model`: no config.json in it.");
  refused("--model olmoe-1b-7b --pd 0:1", "`pd`: '0:1' is not PREFILL:DECODE in nodes, each at least 1");
  refused("--model olmoe-1b-7b --dtype fp4", "`dtype`: ");
}

TEST_CASE("init says why a new scenario has another type than the model's own") {
  const TempDir dir;
  const Outcome oss = run_epsim(dir, "init --model gpt-oss-120b --node DGX-H100 -o oss.yaml");
  REQUIRE_MESSAGE(oss.exit_code == 0, oss.err);
  check_contains(oss.out, {"model.dtype is bf16, not the model's own mxfp4: SGLang has no mxfp4 kernels"});
  check_contains(slurp(dir / "oss.yaml"), {"  # bf16, not the model's own mxfp4: SGLang has no mxfp4 kernels"});
  check_contains(run_epsim(dir, "init --engine vllm --model gpt-oss-120b --node p4de.24xlarge").out,
                 {"mxfp4: no mxfp4 kernels of the A100-80 were measured."});
  check_contains(run_epsim(dir, "init --model olmoe-1b-7b --node DGX-H200").out, {"choose bf16 where yours is bf16"});
  CHECK(run_epsim(dir, "init --model kimi-k2.5 --node DGX-H200 --nodes 2").out.find("model's own") ==
        std::string::npos);
  check_contains(run_epsim(dir, "init --model olmoe-1b-7b --node H200").err, {"H200 is a GPU, not a node", "DGX-H200"});
}

}  // namespace epsim::test
