// `epsim capacity` as a user runs it.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/process.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

// A small model that answers in seconds.
const std::string kAsk =
    "capacity --model olmoe-1b-7b --dtypes bf16 --rate 100/s --input-tokens 1024 --output-tokens 16 --nodes "
    "DGX-H100,DGX-H200 --sizes 1 --attention-tp 8 --ep-size all --policies contiguous --modes together --seeds 1 "
    "--quick -q ";

}  // namespace

TEST_CASE("capacity recommends, prices and hands over a deployment") {
  const TempDir dir;
  const Outcome told = run_epsim(dir, kAsk + "--ttft p99=100ms --tpot mean=50ms --price DGX-H200=10usd/h -o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"Rent ", " x DGX-H200 (", "ttft.p99<100ms (", "(your price)", "usd per million tokens",
                            "J a token", "For the others to win:", "DGX-H100, "});
  check_contains(slurp(dir / "plan/candidates.csv"), {"DGX-H100,whole,sglang,bf16,contiguous,,best,,"});
  check_contains(slurp(dir / "plan/launch.sh"),
                 {"sglang.launch_server --model-path $MODEL", "--tp-size 8 --ep-size 8", "sglang_router"});
  check_contains(slurp(dir / "plan/leaderworkerset.yaml"), {"kind: LeaderWorkerSet", "nvidia.com/gpu: 8"});
  check_contains(slurp(dir / "plan/report.html"), {"capacitySections"});
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
  // Other prices: nothing runs anew, and another may win.
  const Outcome other = run_epsim(dir, kAsk + "--ttft p99=100ms --tpot mean=50ms --price DGX-H100=1usd/h -o plan");
  REQUIRE(other.exit_code == 0);
  check_contains(other.out, {" x DGX-H100 ("});
  // What an earlier answer handed over is not left beside one that has nothing to hand over.
  CHECK(run_epsim(dir, kAsk + "--ttft p99=100ms --tpot mean=50ms --budget 1usd/h -o plan").exit_code == 3);
  for (const char* file : {"plan/recommended.yaml", "plan/launch.sh", "plan/leaderworkerset.yaml"}) {
    CHECK_FALSE(std::filesystem::exists(dir / file));
  }
}

TEST_CASE("capacity says infeasible with exit code 3, and what comes nearest") {
  const TempDir dir;
  const Outcome slow = run_epsim(dir, kAsk + "--ttft mean=1us -o plan");
  CHECK(slow.exit_code == 3);
  check_contains(slow.out, {"Infeasible: no deployment of the search space, of at most ", " (--max-nodes), holds",
                            "Nearest: ", "a request that is alone takes"});
  const Outcome poor = run_epsim(dir, kAsk + "--ttft p99=100ms --budget 1usd/h -o poor");
  CHECK(poor.exit_code == 3);
  check_contains(poor.out, {"Infeasible: the nearest deployment that holds the SLO", "; the limit is 1.000 usd/h."});
}

TEST_CASE("capacity refuses what it cannot answer") {
  const TempDir dir;
  const auto refused = [&](const std::string& words, const char* why) {
    const Outcome told = run_epsim(dir, "capacity --model olmoe-1b-7b " + words);
    CAPTURE(words);
    CHECK(told.exit_code == 2);
    check_contains(told.err, {why});
  };
  const std::string demand = "--rate 10/s --input-tokens 100 --output-tokens 10 ";
  refused(demand, "name what the deployment must hold");
  refused("--ttft 1s", "name the demand");
  refused("--rate 10 --input-tokens 100 --output-tokens 10 --ttft 1s", "'10' is not a number with the unit /s.");
  refused(demand + "--ttft 1s --nodes p9", "p9");
  refused(demand + "--ttft 1s --nodes DGX-H100 --set 'faults=[{at: 5s, gpu: 0, speed: 0.5}]'",
          "for as long as its verdict needs");
  CHECK_FALSE(std::filesystem::exists(dir / "out"));  // nothing in the way of the next try
  refused(demand + "--ttft 1s --price p5en.48xlarge=31", "is not NODE=PRICE");
  refused(demand + "--ttft 1s --price prices.csv", "'prices.csv' is neither a file nor NODE=PRICE");
  refused(demand + "--ttft 1s --price p5en.48xlarge=31usd/h --price p5en.48xlarge=30usd/h", "has two prices");
  refused(demand + "--ttft 1s --nodes DGX-H100 --set parallelism.attention_dp=7", "attention_dp");
  refused(demand + "--ttft 1s --modes both", "together, apart");
  refused(demand + "--ttft 1s --ep-size 0", "`ep_size`: '0' is neither a number of EP ranks nor all.");
  refused(demand + "--ttft 1s --nodes DGX-H100 --ep-size 3", "`ep_size`: no layout has '3'");
  refused(demand + "--ttft 1s --ep-size 1 --policies eplb", "1 needs contiguous among the policies");
  refused(demand + "--ttft 1s --vary parallelism.ep_size=1", "a choice of the search: give --ep-size, as in 1.");
  refused(demand + "--ttft 1s --pue 0.5", "'0.5' is not a number of at least 1.");
  refused(demand + "--ttft 1s --nodes ,", "the list is empty");
  refused(demand + "--ttft 1s --attention-tp 3", "no layout is left: a value has to divide the GPUs of a node");
  refused(demand + "--ttft 1s --sizes 1/0",
          "'1/0' is neither a number of nodes nor a part of one, as in 4, 1/2 and 8gpus.");
  refused(demand + "--ttft 1s --sizes 2.5", "'2.5' is neither a number of nodes nor a part of one");
  refused(demand + "--ttft 1s --sizes 1,1/3 --nodes DGX-H100", "`sizes`: '1/3' goes into none of the nodes");
  refused("--rate 10/s --input-tokens 100 --output-tokens 1 --ttft 1s --tpot 1s", "answers of one token have no time");
  refused(demand + "--ttft 1s --time-share 0.5", "a rate is the same all the time");
  refused("--rate 10/s --input-tokens -10 --output-tokens 10 --ttft 1s",
          "`input-tokens`: '-10' is not a number of at least 1.");
  refused("--rate 10/s --input-tokens 10 --output-tokens 2.5 --ttft 1s", "`output-tokens`: 2.5 is not a whole number.");
  refused(demand + "--ttft 1s --set cluster.gpus_per_node=4",
          "`cluster.gpus_per_node`: this is a choice of the search: give --sizes, as in 64gpus or 1/2.");
  refused(demand + "--ttft 1s --vary parallelism.attention_tp=2,4", "a choice of the search: give --attention-tp.");
  refused(
      "--ttft 1s --set 'requests={kind: onoff, on_rate: 9/s, off_rate: 1/s, on_time: 1s, off_time: 1s, count: 50, "
      "input_tokens: 9, output_tokens: 9}'",
      "requests of kind onoff have no rate that could be set: allowed are poisson, constant, gamma, diurnal, sessions "
      "and recorded traces.");
  refused("--rate 0/s --input-tokens 100 --output-tokens 10 --ttft 1s", "'0/s' is not a number above 0");
  refused(demand + "--ttft 1s --concurrency 10", "name --rate or --concurrency, not both.");
  refused("--input-tokens 100 --output-tokens 10 --ttft 1s --concurrency 10", "on e2e, or on both ttft and tpot.");
  refused(demand + "--slo 'ttft.p50<2s,ttft.p99<1s'",
          "contradicts ttft.p99<1s: a percentile is never above a higher one.");
  refused(demand + "--ttft p99=1s --slo 'ttft.p99<2s'", "given twice");
  std::ofstream(dir / "prices.txt") << "# list prices\np5.48xlarge=55usd/h\np5en.48xlarge=63\n";
  refused(demand + "--ttft 1s --price prices.txt", "prices.txt:3");
  refused(demand + "--ttft 1s --kwh 0.12usd/kWh",
          "listed prices include power; --kwh applies to your own prices, given by --price.");
  const std::string trace = "--ttft 1s --set 'requests={kind: azure_csv, path: trace.csv}'";
  std::ofstream(dir / "trace.csv") << "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  refused(trace, "trace.csv");
  std::ofstream(dir / "trace.csv", std::ios::app)
      << "2024-05-10 10:00:00.0000000,500,8\n2024-05-10 10:00:00.0000000,500,8\n";
  refused(trace, "trace.csv");
}

TEST_CASE("capacity answers without a cost where no price is known, and takes prices from a file") {
  const TempDir dir;
  const std::string ask =
      "capacity --model olmoe-1b-7b --rate 50/s --input-tokens 1024 --output-tokens 16 --nodes p4de.24xlarge --sizes 1 "
      "--attention-tp 8 --quick -q --ttft p99=200ms --terms ownership -o plan";
  const Outcome none = run_epsim(dir, ask);
  REQUIRE_MESSAGE(none.exit_code == 0, none.err);
  check_contains(none.out, {"Rent ", "No ownership price"});
  std::ofstream(dir / "prices.txt") << "# mine\np4de.24xlarge = 12.5usd/h  # with power\n";
  const Outcome own = run_epsim(dir, ask + " --price prices.txt");
  REQUIRE_MESSAGE(own.exit_code == 0, own.err);
  check_contains(own.out, {"It costs 12.50 usd/h", "(your price)"});
}

// docs/capacity.md: gpt-oss-20b takes 14 GB in mxfp4, and one H100 is the cheapest thing that AWS rents it on.
TEST_CASE("capacity tries a single GPU by default, and nodes of a user's file") {
  const TempDir dir;
  const std::string demand =
      " --input-tokens 1024 --output-tokens 64 --ttft p99=2s --tpot p99=30ms --modes together --quick -q -o plan "
      "--overwrite";
  const Outcome one = run_epsim(dir, "capacity --model gpt-oss-20b --rate 20/s" + demand);
  CHECK(one.exit_code == 0);
  check_contains(one.out, {"Rent 1 x p5.4xlarge (1 GPU): 1 instance of 1 node with attention TP 1; sglang, mxfp4",
                           "6.880 usd/h", "p4de.24xlarge"});
  std::ofstream(dir / "two.yaml") << "base: DGX-H100\ngpus: 2\nnics: 2\n";
  const Outcome two = run_epsim(dir, "capacity --model gpt-oss-120b --engines vllm --sizes 1 --rate 5/s --nodes " +
                                         (dir / "two.yaml").string() + demand);
  CHECK(two.exit_code == 0);
  check_contains(two.out, {"(2 GPUs): 1 instance of 1 node with attention TP 2 and EP 1; vllm,"});
  std::ofstream(dir / "six.yaml") << "base: DGX-H100\ngpus: 6\nnics: 6\n";  // 32 experts do not divide over them
  const Outcome six = run_epsim(
      dir, "capacity --model gpt-oss-20b --sizes 1 --rate 5/s --nodes " + (dir / "six.yaml").string() + demand);
  CHECK(six.exit_code == 3);
  check_contains(six.out, {"None fits; ", "32 experts do not divide over 6 GPUs"});
}

// 200/s take 5 nodes, 40 instances. 120 hold some 5,600 requests at once: 12,000 in all are gone before that is steady.
TEST_CASE("capacity asks many instances for as many requests as they take to fill") {
  const TempDir dir;
  const Outcome told =
      run_epsim(dir,
                "capacity --model llama-3.1-70b --input-tokens 1500 --output-tokens 300 --ttft p99=1s "
                "--tpot p99=40ms --rate 600/s --nodes p6-b200.48xlarge --sizes 1/8 --seeds 1 -q -o plan");
  check_contains(told.out, {"Rent 15 x p6-b200.48xlarge"});
  CHECK(told.err.find("copies of experts") == std::string::npos);  // a dense model has none
}

TEST_CASE("capacity says what the engine makes of the weights, and what a run of its answer warns of") {
  const TempDir dir;
  const std::string ask =
      "capacity --model gpt-oss-120b --nodes DGX-H100 --sizes 1 --modes together --rate 1/s --input-tokens 64 "
      "--output-tokens 8 --ttft p99=2s --policies contiguous --quick -q -o plan --overwrite ";
  check_contains(run_epsim(dir, ask + "--ep-size all").err,
                 {"note: weights are bf16, not the model's own mxfp4: SGLang has no mxfp4"});
  check_contains(run_epsim(dir, ask + "--ep-size all --dtypes mxfp4").err, {"warning: SGLang has no mxfp4 kernels"});
}

TEST_CASE("capacity tries experts that a node's GPUs split, where the engine starts with them") {
  const TempDir dir;
  const auto ask = [&](const std::string& words) {
    return run_epsim(dir,
                     "capacity --nodes DGX-H100 --rate 1/s --input-tokens 64 --output-tokens 2 --ttft p99=2s "
                     "--quick -q -o plan --overwrite " +
                         words);
  };
  const std::string one = "--sizes 1 --attention-tp 8 --modes together ", oss = one + "--model gpt-oss-120b ";
  const Outcome told = ask(oss);
  check_contains(told.out, {"1 instance of 1 node with attention TP 8 and EP 1; sglang, mxfp4. At 1",
                            "1x1 TP8 EP1  -  ", "EP of experts, where not all GPUs"});
  CHECK(told.err.empty());  // neither a note nor a warning
  check_contains(slurp(dir / "plan/candidates.csv"),
                 {"DGX-H100,whole,sglang,bf16,contiguous,,", "DGX-H100,whole,sglang,mxfp4,contiguous,,best,,1,8,1,"});
  check_contains(slurp(dir / "plan/recommended.yaml"), {"ep_size: 1"});
  check_contains(slurp(dir / "plan/launch.sh"), {"--tp-size 8"});
  CHECK(slurp(dir / "plan/launch.sh").find("ep-size") == std::string::npos);  // 1 is SGLang's default
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
  ask(oss + "--ep-size 1 --engines vllm");
  check_contains(slurp(dir / "plan/launch.sh"), {"vllm serve"});
  CHECK(slurp(dir / "plan/launch.sh").find("expert-parallel") == std::string::npos);
  ask(oss + "--ep-size 1 --engines trtllm");
  check_contains(slurp(dir / "plan/launch.sh"), {"--tp_size 8 --ep_size 1"});
  // 1536 columns over 8 GPUs: 192 end within a block of 128.
  const std::string qwen = one + "--model qwen3-235b-a22b ";
  check_contains(ask(qwen).out, {"1 instance of 1 node with attention TP 8; sglang, fp8"});
  CHECK(slurp(dir / "plan/candidates.csv").find(",1,8,1,") == std::string::npos);
  check_contains(ask(qwen + "--ep-size 1").err, {"192 of 1536 columns on a GPU"});
  ask(qwen + "--ep-size 2");
  check_contains(slurp(dir / "plan/launch.sh"), {"--tp-size 8 --ep-size 2"});
  // Pools of either kind, each with its own.
  CHECK(ask("--model gpt-oss-120b --dtypes mxfp4 --sizes 1,2 --attention-tp 8 --modes apart").exit_code == 0);
  const std::string ledger = slurp(dir / "plan/candidates.csv");
  check_contains(ledger, {"prefill,sglang,mxfp4,contiguous,,", ",1,8,1,", ",1,8,8,", ",2,8,16,"});
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
}

// 8 GB of weights in fp8 fit on any part of a node.
TEST_CASE("capacity sizes a dense model's instances, which may share a node") {
  const TempDir dir;
  const std::string ask =
      "capacity --model llama-3.1-8b --engines vllm --rate 600/s --input-tokens 256 --output-tokens 64 --ttft "
      "p99=500ms "
      "--tpot p99=40ms --nodes DGX-H100 --seeds 1 --quick -q ";
  const Outcome told = run_epsim(dir, ask + "-o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"Rent 1 x DGX-H100 (8 GPUs): ", "vllm, fp8. At"});
  CHECK(told.out.find("policy") == std::string::npos);
  const std::string ledger = slurp(dir / "plan/candidates.csv");
  for (const char* size :
       {",0.125,1,", ",0.25,2,", ",0.5,4,", ",1,8,", ",2,16,"}) {  // nodes of an instance, attention TP
    check_contains(ledger, {size});
  }
  CHECK(slurp(dir / "plan/launch.sh").find("expert") == std::string::npos);
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
  // One GPU each, as asked: all eight of the node run, of which one may be spare.
  const Outcome eighths = run_epsim(dir, ask + "--sizes 1/8 -o eighths");
  REQUIRE_MESSAGE(eighths.exit_code == 0, eighths.err);
  check_contains(eighths.out, {"Rent 1 x DGX-H100 (8 GPUs): 8 instances of 1 GPU with attention TP 1", "8x1/8 TP1"});
  check_contains(slurp(dir / "eighths/launch.sh"),
                 {"for SLOT in $(seq 0 7)", "CUDA_VISIBLE_DEVICES=$(seq -s , $((SLOT * 1)) $((SLOT * 1 + 0)))",
                  "8 x 1/8; on each host:", "--port $((8000 + SLOT)) &"});
  check_contains(slurp(dir / "eighths/leaderworkerset.yaml"), {"replicas: 8", "nvidia.com/gpu: 1", "--port 8000"});
  check_contains(slurp(dir / "eighths/recommended.yaml"),
                 {"# 8 instances share a DGX-H100", "gpus_per_node: 1", "instances: 8"});
  const Outcome spare = run_epsim(dir, ask + "--sizes 1/8 --spare 1 -o spare");
  REQUIRE_MESSAGE(spare.exit_code == 0, spare.err);
  check_contains(spare.out, {"8 instances of 1 GPU", "vllm, fp8 (1 of"});
  // Four NICs of eight GPUs: one instance has half of one.
  CHECK(run_epsim(dir,
                  "capacity --model llama-3.1-8b --nodes p4de.24xlarge --sizes 1/8 --rate 5/s --input-tokens 64 "
                  "--output-tokens 8 --ttft p99=1s --quick -q -o p4de")
            .exit_code == 0);
  const Outcome large = run_epsim(dir,
                                  "capacity --model llama-3.1-405b --nodes DGX-H100 --sizes 1/8 --rate 1/s "
                                  "--input-tokens 64 --output-tokens 8 --ttft p99=1s --quick -q -o large");
  CHECK(large.exit_code == 3);
  check_contains(large.out, {"None fits; the nearest, 1/8 x DGX-H100",
                             "its reserves and the weights in the static pool", "GiB. More GPUs make room."});
  // A prompt beyond what the memory leaves: the reason names the key, not a line of a file that no user wrote.
  const Outcome reserved =
      run_epsim(dir,
                "capacity --model kimi-k2 --nodes p4de.24xlarge --sizes 4 --rate 1/s --input-tokens "
                "41000000 --output-tokens 8 --ttft p99=2s --quick -q --set serving.cuda_graph_max_bs=1024 -o reserved");
  CHECK(reserved.exit_code == 3);
  check_contains(slurp(dir / "reserved/candidates.csv"), {"does not fit,\"`serving.mem_fraction_static`: SGLang"});
}

// SGLang reserves 512 x 64 x 3 MiB for graphs of 512 requests on each of 64 DP ranks, and half as much again beyond 300:
// 144 GiB of an H200's 140. Graphs of 256 take 48.
TEST_CASE("capacity sets the graphs with which wide DP attention leaves memory, and hands them over") {
  const TempDir dir;
  const Outcome wide = run_epsim(dir,
                                 "capacity --model deepseek-r1 --nodes DGX-H200 --sizes 8 --attention-tp 1 --modes "
                                 "together --policies contiguous --rate 1/s --input-tokens 64 --output-tokens 1 --ttft "
                                 "p99=2s --quick -q -o wide");
  REQUIRE_MESSAGE(wide.exit_code == 0, wide.err);
  check_contains(wide.out, {"with attention TP 1 (cuda_graph_max_bs=256)"});
  check_contains(slurp(dir / "wide/launch.sh"), {"--dp-size 64", "--cuda-graph-max-bs 256"});
  check_contains(slurp(dir / "wide/candidates.csv"), {"contiguous,cuda_graph_max_bs=256,best"});
  check_contains(slurp(dir / "wide/recommended.yaml"), {"cuda_graph_max_bs: 256"});
}

// 72 GPUs divide neither 256 experts nor 128 heads; a tray of a GB200 rack has 4.
TEST_CASE("capacity asks for a power of two of a rack's GPUs and starts an instance on each of its trays") {
  const TempDir dir;
  const std::string ask =
      "capacity --model deepseek-r1 --nodes GB200-NVL72 --price GB200-NVL72=500usd/h --rate 5/s --input-tokens 256 "
      "--output-tokens 2 --ttft p99=2s --quick -q ";
  const Outcome told = run_epsim(dir, ask + "-o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out,
                 {"Rent 1 x GB200-NVL72 (72 GPUs): 9 instances of 8 GPUs with attention TP 8", "9x8gpus TP8"});
  check_contains(slurp(dir / "plan/launch.sh"),
                 {"9 x 8gpus\n", "2 hosts with 4 GPUs", "--nnodes 2 --node-rank $NODE_RANK"});
  check_contains(slurp(dir / "plan/leaderworkerset.yaml"), {"replicas: 9", "size: 2\n", "nvidia.com/gpu: 4"});
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
  const Outcome two = run_epsim(dir, ask + "--sizes 2gpus,80gpus -o two");
  CHECK(two.exit_code == 2);
  check_contains(two.err, {"'80gpus' goes into none of the nodes"});
}

TEST_CASE("capacity fixes copies of a policy and knobs of an engine, and hands them over as flags") {
  const TempDir dir;
  const Outcome told =
      run_epsim(dir,
                "capacity --model olmoe-1b-7b --dtypes bf16 --rate 100/s --input-tokens 1024 --output-tokens "
                "16 --nodes DGX-H100 --sizes 1 --attention-tp 4 --policies eplb:8 --quick -q --ttft p99=100ms "
                "--vary serving.chunked_prefill_size=2048 --set serving.disable_radix_cache=true -o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  // Two ranks of 2048 tokens; 8 copies a layer.
  check_contains(slurp(dir / "plan/launch.sh"),
                 {" --chunked-prefill-size 4096", " --disable-radix-cache",
                  "--init-expert-location experts-whole.json --ep-num-redundant-experts 8"});
  CHECK(run_epsim(dir, "validate plan/recommended.yaml").exit_code == 0);
}

// 3 conversations/s of 4 turns are 12 requests/s; twice as many are 24, of 6 conversations/s. In 900 tokens there is room for
// 4 turns of 220: of geometric numbers of turns, each the last with 1/4, (1 - 0.75^4) / 0.25 = 2.73 are left: 16.4 requests/s,
// but for the draws. Steady after 4 x 4 turns x 5 s = 80 s, in which 24/s x (80 - 20) s = 1,440 requests come: with as long again,
// 1,920 more, 3,360. With 16.4/s those are 2.73 turns long: 16.4 x (160 - 13.7) = 2,400.
TEST_CASE("capacity takes conversations, and raises their rate with the demand") {
  const TempDir dir;
  const auto ask = [&](const std::string& max_context) {
    std::ofstream(dir / "ask.yaml")
        << "model: olmoe-1b-7b\ndtypes: [bf16]\nslo: ttft.p99<1s\ntimes: 2\nquick: true\nnodes: [DGX-H100]\n"
           "sizes: [1]\nattention_tp: [8]\nmodes: [together]\nscenario:\n  requests: {kind: sessions, session_rate: "
           "3/s, turns: 4, think_time: 5s, count: 400, input_tokens: 200, output_tokens: 20, max_context: "
        << max_context << "}\n";
    const Outcome told = run_epsim(dir, "capacity ask.yaml -q --overwrite -o plan");
    REQUIRE_MESSAGE(told.exit_code == 0, told.err);
    check_contains(slurp(dir / "plan/recommended.yaml"), {"session_rate: 6/s", " requests/s come from 80 s on"});
    return told.out;
  };
  const auto count = [&] {
    const std::string text = slurp(dir / "plan/recommended.yaml");
    return std::stod(text.substr(text.find("\n  count: ") + 10));
  };
  check_contains(ask("40000"), {"for 24 requests/s as in sessions", "one instance, at its share, holds"});  // quick
  CHECK(count() == doctest::Approx(3360).epsilon(0.15));
  check_contains(ask("900"), {"for 16.", "max_context leaves 2.73 of 4 turns"});
  CHECK(count() == doctest::Approx(2400).epsilon(0.15));
}

// A day's peak is 20/s x (1 + 0.9); of the others the rate is what they state, not what few requests came to.
TEST_CASE("capacity sizes generated requests for their rate, and those of a day for its peak") {
  const TempDir dir;
  const std::string ask =
      "capacity --model olmoe-1b-7b --dtypes bf16 --ttft p99=1s --nodes DGX-H100 --sizes 1 --attention-tp 8 --modes "
      "together --quick -q -o plan --overwrite --set 'requests={count: 100, input_tokens: 200, output_tokens: 20, ";
  Outcome told = run_epsim(dir, ask + "kind: diurnal, rate: 20/s, amplitude: 0.9}'");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"for 38 requests/s, Poisson arrivals at the peak of diurnal: mean 20/s, peak 38/s"});
  check_contains(slurp(dir / "plan/recommended.yaml"), {"kind: poisson", "rate: 38/s"});
  check_contains(slurp(dir / "plan/capacity.json"), {"at this peak; at the mean rate, 20 requests/s, "});
  const std::string hours = "5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 30, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5";
  told = run_epsim(dir, ask + "kind: diurnal, seed: 7, start_at: 12h, hourly_rates: [" + hours + "]}'");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(slurp(dir / "plan/recommended.yaml"), {"kind: poisson", "rate: 30/s", "seed: 7"});
  told = run_epsim(dir, ask + "kind: gamma, rate: 20/s, burstiness: 0.05}'");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"for 20 requests/s as in gamma", "20 output tokens, SLO"});
  told = run_epsim(dir, ask + "kind: gamma, rate: 20/s, burstiness: 0.05}' --growth 0.5");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"for 20 requests/s as in gamma", ", 30 requests/s with 50 % growth, SLO"});  // 20 x 1.5
  check_contains(slurp(dir / "plan/recommended.yaml"), {"rate: 30/s"});
}

TEST_CASE("capacity takes requests in flight, and tells the margin to each bound") {
  const TempDir dir;
  const Outcome told =
      run_epsim(dir,
                "capacity --model olmoe-1b-7b --dtypes bf16 --concurrency 10 --input-tokens 1024 --output-tokens 16 "
                "--nodes DGX-H100 --sizes 1 --attention-tp 8 --quick -q --ttft p99=100ms --tpot mean=60ms -o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out,
                 {"for 10 requests in flight of 1024 input and 16 output tokens, each within 20 %",
                  "requests in flight (110.9/s)", "late requests", "ttft.p99<100ms", "tpot.mean<60ms", " +- "});
  check_contains(slurp(dir / "plan/recommended.yaml"), {"kind: closed_loop", "concurrency: 10", "min: 13", "max: 19"});
  check_contains(slurp(dir / "plan/capacity.json"),
                 {R"("demand_requests_per_s": null)", R"("demand_in_flight": 10.0)"});
}

// At the rate at which 200 requests are in flight where each takes its 20 s + 15 x 12 ms, far fewer are: answers take
// their time by what is in flight, not by what may be.
TEST_CASE("a deployment for requests in flight holds the SLO with as many") {
  const TempDir dir;
  const Outcome told =
      run_epsim(dir,
                "capacity --model olmoe-1b-7b --dtypes bf16 --concurrency 200 --input-tokens 512 --output-tokens 64 "
                "--nodes DGX-H100 --sizes 1/8 --quick -q --ttft p99=20s --tpot p99=12ms --modes together -o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  const Outcome run = run_epsim(dir, "run plan/recommended.yaml -q -o run");
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const auto summary = nlohmann::json::parse(slurp(dir / "run/summary.json"));
  CHECK(summary.dump().find("\"closed_loop_clients\":200") != std::string::npos);
  CHECK(summary["latency"]["tpot_p99_ms"].get<double>() < 12);
}

TEST_CASE("capacity takes a file, and the peak hour of a trace") {
  const TempDir dir;
  std::string trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 300; ++i) {  // an hour with a request a minute, then four a minute
    const int second = i < 60 ? 60 * i : 3600 + 15 * (i - 60);
    trace += "2024-05-10 " + std::to_string(10 + second / 3600) + ":" + (second / 60 % 60 < 10 ? "0" : "") +
             std::to_string(second / 60 % 60) + ":" + (second % 60 < 10 ? "0" : "") + std::to_string(second % 60) +
             ".0000000,500,8\n";
  }
  std::ofstream(dir / "trace.csv") << trace;
  std::ofstream(dir / "ask.yaml")
      << "model: olmoe-1b-7b\ndtypes: [bf16]\nslo: ttft.mean<1s\ntimes: 300\nnodes: [DGX-H100]\nsizes: [1]\n"
         "attention_tp: [8]\npolicies: [contiguous]\nmodes: [together]\nscenario:\n"
         "  requests: {kind: azure_csv, path: trace.csv}\n";
  const Outcome told = run_epsim(dir, "capacity ask.yaml --quick -q -o plan");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  // 240 requests in that hour, 300 times.
  check_contains(told.out, {"20 requests/s as in", "its peak hour from 3600 s on"});
  // Half of the two hours are no busier than the first, with a request a minute: 5/s at 300 times that.
  const Outcome half = run_epsim(dir, "capacity ask.yaml --quick -q -o half --time-share 0.5");
  REQUIRE_MESSAGE(half.exit_code == 0, half.err);
  check_contains(half.out, {"5 requests/s as in", "50 % of whose hours are no busier than that from 0 s on"});
  // The second hour alone, played twice as fast: 239 requests before the last at 3585 s, 2 x 300 times.
  std::ofstream(dir / "part.yaml")
      << "model: olmoe-1b-7b\ndtypes: [bf16]\nslo: ttft.mean<1s\ntimes: 300\nnodes: [DGX-H100]\nsizes: [1]\n"
         "attention_tp: [8]\npolicies: [contiguous]\nmodes: [together]\nscenario:\n"
         "  requests: {kind: azure_csv, path: trace.csv, slice_start: 3600s, time_scale: 2}\n";
  const Outcome part = run_epsim(dir, "capacity part.yaml --quick -q -o part");
  REQUIRE_MESSAGE(part.exit_code == 0, part.err);
  check_contains(part.out, {"40 requests/s as in", "its peak 0.996 hours from 3600 s on"});
  check_contains(slurp(dir / "part/recommended.yaml"), {"slice_start: 3600s", "slice_length: 3585s"});
  // The command line overrides the file, also its lists.
  const Outcome other = run_epsim(
      dir, "capacity ask.yaml --quick -q -o other --slo ttft.mean=2s --times 150 --nodes DGX-H200 --attention-tp 4");
  REQUIRE_MESSAGE(other.exit_code == 0, other.err);
  check_contains(other.out, {"SLO ttft.mean<2s", "10 requests/s as in", " x DGX-H200 (", "attention TP 4"});
  // Another trace under the same name is another question: nothing that was run for the first may answer it.
  std::ofstream(dir / "trace.csv", std::ios::app) << "2024-05-10 12:00:01.0000000,500,8\n";
  const Outcome changed = run_epsim(dir, "capacity ask.yaml --quick -q -o plan");
  CHECK(changed.exit_code == 2);
  std::ofstream(dir / "wrong.yaml")
      << "model: olmoe-1b-7b\nslo: ttft<1s\nrate: 1/s\ninput_tokens: 9\noutput_tokens: 9\nnode: DGX-H100\n";
  const Outcome wrong = run_epsim(dir, "capacity wrong.yaml");
  CHECK(wrong.exit_code == 2);
  check_contains(wrong.err, {"wrong.yaml:6", "node"});
}

// 55 s of 4 requests/s, and 5 s of 200 from 30 s on: 20.3/s on average, which one GPU serves with ease.
TEST_CASE("capacity holds the bursts of a recorded trace: its answer, run, keeps the bound") {
  const TempDir dir;
  std::string trace = "t,i,o\n";
  for (int i = 0; i < 60; ++i) {
    const int in_second = i >= 30 && i < 35 ? 200 : 4;
    for (int k = 0; k < in_second; ++k) {
      trace += std::to_string(i + k / static_cast<double>(in_second)) + ",1024,16\n";
    }
  }
  std::ofstream(dir / "burst.csv") << trace;
  std::ofstream(dir / "ask.yaml")
      << "model: olmoe-1b-7b\ndtypes: [bf16]\nslo: ttft.p99<300ms\nnodes: [p4de.24xlarge]\nsizes: [1/8]\n"
         "policies: [contiguous]\nmodes: [together]\nscenario:\n"
         "  requests: {kind: csv, path: burst.csv, arrival_column: t, input_column: i, output_column: o}\n";
  const auto instances = [&](const std::string& more) {
    const Outcome told = run_epsim(dir, "capacity ask.yaml --quick -q -o plan --overwrite " + more);
    REQUIRE_MESSAGE(told.exit_code == 0, told.err);
    check_contains(told.out, {"; latencies are of its busiest stretch)"});
    const auto plan = nlohmann::json::parse(slurp(dir / "plan/capacity.json"));
    return std::stoi(plan.at("deployments").at(0).at("pools").get<std::string>());  // "4 instances of ..."
  };
  const auto p99 = [&] {
    const Outcome run = run_epsim(dir, "run plan/recommended.yaml -q -o out --overwrite");
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    const auto summary = nlohmann::json::parse(slurp(dir / "out/summary.json"));
    return summary.at("latency").at("ttft_p99_ms").get<double>();
  };
  const int once = instances("");
  CHECK(once > 1);
  CHECK(p99() < 300);
  // Twice the users: bursts at twice the rate, as long as they were.
  const int twice = instances("--times 2 --set requests.rate_by=resample");
  CHECK(twice > once);
  CHECK(p99() < 300);
  const Outcome seeds = run_epsim(dir, "capacity ask.yaml --seeds 1 -o refused");
  CHECK(seeds.exit_code == 2);
  check_contains(seeds.err, {"seeds", "steady load"});
  // The busiest 1,000 of the 1,220 are the burst: 200/s of 20.3/s on average.
  const Outcome smooth = run_epsim(dir,
                                   "goodput plan/recommended.yaml -q --set requests.rate_by=null --set "
                                   "requests.rate=null --policies contiguous --only-listed --seeds 1 "
                                   "--tolerance 0.5 --slo 'ttft.p99<300ms' -o smooth");
  check_contains(smooth.err, {"warning: the recording's busiest 1,000 requests arrive at 9.8 times its mean rate."});
}

TEST_CASE("the worked examples cost what experiments/capacity/README.md says") {
  const TempDir dir;
  const std::string page = slurp(source_dir() / "experiments/capacity/README.md");
  // Instances, nodes, usd/h, usd per million output tokens, TTFT and TPOT p99 of the recommended deployments.
  const auto told = [&](const std::string& file, const char* node, const char* words) {
    const Outcome answer = run_epsim(dir, "capacity " + source_dir().string() + "/experiments/capacity/" + file +
                                              " --quick -q -o plan --overwrite --nodes " + node);
    REQUIRE_MESSAGE(answer.exit_code == 0, answer.err);
    check_contains(page, {words});
    return answer.out;
  };
  check_contains(told("qwen3-two-tiers.yaml --slo 'ttft.p99<5s,tpot.p99<100ms'", "p5en.48xlarge",
                      "| p5en.48xlarge | 1 x 1, TP 4 | 1 | 63.30 | 4.396 | 402.9 | 71.76 | |"),
                 {"1x1 TP4", "63.30   4.396     402.9     71.76"});
  check_contains(
      told("craft-p4de.yaml --sizes 6 --policies craft", "p4de.24xlarge", "| 6 | 4 | 24 | 658.7 | 388.0 | 390.8 |"),
      {"4x6 TP8", "658.7   178.7      3104     390.8"});
}

}  // namespace epsim::test
