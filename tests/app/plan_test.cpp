// `epsim plan` through the program: what the plan file says, and what is refused.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/report/format.h"
#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::TempDir;
using nlohmann::json;

namespace {

void write_input(const TempDir& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir / name) << text;
}

// Two layers of four experts on two GPUs.
json small_request() {
  return {{"policy", "eplb"}, {"weights", {{90, 30, 20, 20}, {10, 10, 10, 10}}}, {"num_replicas", 6}, {"num_gpus", 2}};
}

json planned(const TempDir& dir, const json& request, const std::string& more = "") {
  write_input(dir, "request.json", request.dump());
  const Outcome outcome = run_epsim(dir, "plan request.json -o plan.json --overwrite " + more);
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(slurp(dir / "plan.json"));
}

struct WrongPlan {
  const char* name;
  std::string text;                   // the whole request
  std::vector<std::string> mentions;  // all of these stand in the message
};

// The small request with one key set to another value (null: taken away).
std::string with(const std::string& key, const json& value) {
  json request = small_request();
  request[key] = value;
  if (value.is_null()) {
    request.erase(key);
  }
  return request.dump();
}

}  // namespace

TEST_CASE("plan: slots, copies and figures, worked out by hand") {
  const TempDir dir;
  json request = small_request();
  request["expert_bytes"] = "100B";
  const json plan = planned(dir, request);
  // Layer 0: copies go to expert 0 (90 -> 45), then to expert 0 again (45 is the largest; -> 30). Items: three of 30
  // for expert 0, 30 for expert 1, 20, 20. Greedy by load, three per GPU: 30 30 20 on each: (80, 80), balancedness 1.
  CHECK(plan["logcnt"] == json({{3, 1, 1, 1}, {2, 2, 1, 1}}));
  CHECK(plan["balancedness_after"][0].get<double>() == doctest::Approx(1.0));
  // In order without copies: 120 and 40, mean 80 / 120.
  CHECK(plan["balancedness_before"][0].get<double>() == doctest::Approx(80.0 / 120.0));
  CHECK(plan["balancedness_before"][1].get<double>() == doctest::Approx(1.0));
  // Three slots per GPU and layer, two of them base experts: 6 x 100 B, of which copies 2 x 100 B.
  CHECK(plan["experts_per_gpu"] == json({6, 6}));
  CHECK(plan["memory_per_gpu_bytes"] == json({600, 600}));
  CHECK(plan["copies_per_gpu_bytes"] == json({200, 200}));
  CHECK(plan["moved_bytes"].is_null());
  CHECK_FALSE(plan.contains("craft"));
  CHECK(plan["previous"].is_null());
  CHECK_FALSE(plan.contains("slots"));
  for (int l = 0; l < 2; ++l) {
    for (int e = 0; e < 4; ++e) {
      const json& slots = plan["log2phy"][l][e];
      CHECK(slots.size() == plan["logcnt"][l][e].get<std::size_t>());
      for (const json& slot : slots) {
        CHECK(plan["phy2log"][l][slot.get<std::size_t>()] == e);
      }
    }
  }
}

TEST_CASE("plan: replication_factor is num_replicas in other words") {
  const TempDir dir;
  const json by_count = planned(dir, small_request());
  json request = small_request();
  request.erase("num_replicas");
  request["replication_factor"] = 2;  // two more experts on each of two GPUs, over two layers: two more per layer
  CHECK(planned(dir, request) == by_count);
}

TEST_CASE("plan: moved bytes are against the previous plan") {
  const TempDir dir;
  json request = small_request();
  request["expert_bytes"] = "100B";
  const json first = planned(dir, request);
  std::filesystem::rename(dir / "plan.json", dir / "before.json");
  request["previous"] = "before.json";
  CHECK(planned(dir, request)["moved_bytes"] == 0);
  // The same loads with experts 0 and 2 exchanged in layer 0: the three copies move from 0 to 2.
  request["weights"][0] = {20, 30, 90, 20};
  const json next = planned(dir, request);
  const auto on_gpu = [](const json& plan, int layer, int gpu) {
    std::vector<int> experts = plan["phy2log"][layer].get<std::vector<int>>();
    experts = {experts.begin() + gpu * 3, experts.begin() + gpu * 3 + 3};
    return std::set<int>(experts.begin(), experts.end());
  };
  int moved = 0;  // an expert travels to a GPU once, however many copies it has there
  for (int gpu = 0; gpu < 2; ++gpu) {
    const std::set<int> was = on_gpu(first, 0, gpu), is = on_gpu(next, 0, gpu);
    moved += static_cast<int>(std::count_if(is.begin(), is.end(), [&](int expert) { return was.count(expert) == 0; }));
  }
  CHECK(moved > 0);
  CHECK(next["moved_copies"] == moved);
  CHECK(next["moved_bytes"] == moved * 100);
  CHECK(next["balancedness_previous"][0].get<double>() < next["balancedness_after"][0].get<double>());
}

TEST_CASE("plan: the way from the previous plan, batch by batch, and plans that keep more in place") {
  const TempDir dir;
  // Two nodes of one GPU. Before: 0 1 | 2 3. Base packs the new loads 9 1 2 8 by weight: 0 -> GPU 0, 3 -> GPU 1, 2 ->
  // GPU 1 (8 < 9), 1 -> GPU 0: 0 1 | 3 2. Nothing has to travel, but slots change; `keep: slots` leaves them.
  json request = {{"policy", "base"}, {"weights", {{9, 1, 2, 8}}}, {"num_gpus", 2}, {"num_nodes", 2}};
  write_input(dir, "before.json", "{\"num_experts\": 4, \"num_gpus\": 2, \"phy2log\": [[0, 1, 2, 3]]}");
  request["previous"] = "before.json";
  request["expert_bytes"] = "100B";
  const json renumbered = planned(dir, request);
  CHECK(renumbered["phy2log"] == json({{0, 1, 3, 2}}));
  CHECK(renumbered["moved_copies"] == 0);
  CHECK(renumbered["migration"]["batches"] == json::array());
  CHECK(renumbered["migration"]["switches_after"] == json({-1}));
  request["keep"] = "slots";
  CHECK(planned(dir, request)["phy2log"] == json({{0, 1, 2, 3}}));
  // Loads 1 9 2 8: 1 and 0 on GPU 0, 3 and 2 on GPU 1: as before. 2 1 9 8: 2 and 1 | 3 and 0, so that 0 and 2 change
  // places: one copy each way through the NICs.
  request["weights"] = {{2, 1, 9, 8}};
  request["migration_limit"] = 1;
  const json moved = planned(dir, request);
  CHECK(moved["phy2log"] == json({{2, 1, 0, 3}}));
  CHECK(moved["migration"]["batches"] == json({{{0, 2, 1, 0, 0}, {0, 0, 0, 1, 2}}}));
  CHECK(moved["migration"]["limit_per_gpu"] == 1);
  CHECK(moved["migration"]["bytes_per_gpu"] ==
        json({{"node_out", {0, 0}}, {"node_in", {0, 0}}, {"nic_out", {100, 100}}, {"nic_in", {100, 100}}}));
  // Against 0 1 | 2 3 both GPUs change wholly, unless they swap names.
  request["weights"] = {{8, 7, 1, 9}};  // 3 and 2 on GPU 0; 0 and 1 on GPU 1
  request["keep"] = "none";
  CHECK(planned(dir, request)["moved_copies"] == 4);
  request["keep"] = "gpus";
  CHECK(planned(dir, request)["moved_copies"] == 0);
  request["keep"] = "gpus_in_node";  // each node has one GPU
  CHECK(planned(dir, request)["moved_copies"] == 4);
}

TEST_CASE("plan: eplb as vLLM runs it keeps slots of itself") {
  const TempDir dir;
  json request = {{"policy", "eplb_vllm"}, {"weights", {{9, 1, 2, 8}}}, {"num_gpus", 2}, {"num_replicas", 4}};
  write_input(dir, "before.json", "{\"num_experts\": 4, \"num_gpus\": 2, \"phy2log\": [[1, 0, 2, 3]]}");
  request["previous"] = "before.json";
  const json plan = planned(dir, request);
  CHECK(plan["phy2log"] == json({{1, 0, 2, 3}}));
  CHECK(plan["policy"] == "eplb_vllm");
}

// Loads 9 8 2 1 on 0 3 | 1 2 are 10 and 10 already; contiguous begins with 0 1 | 2 3.
TEST_CASE("plan: policies that change the plan in place start from the previous one") {
  const TempDir dir;
  write_input(dir, "before.json", "{\"num_experts\": 4, \"num_gpus\": 2, \"phy2log\": [[3, 0, 2, 1]]}");
  for (const std::string policy : {"swift_balancer", "flashlb"}) {
    CAPTURE(policy);
    json request = {{"policy", policy}, {"weights", {{9, 8, 2, 1}}}, {"num_gpus", 2}, {"num_replicas", 4}};
    request["previous"] = "before.json";
    const json plan = planned(dir, request);
    CHECK(plan["phy2log"] == json({{3, 0, 2, 1}}));
    CHECK(plan["moved_copies"] == 0);
    CHECK(plan["policy"] == policy);
  }
}

TEST_CASE("plan: uneven capacities are ragged and say how many slots each GPU has") {
  const TempDir dir;
  // CRAFT's Figure 10: {6,4,1x6} twice, {5,4,2,1x5}, {3,3,3,3,1x4} on 4 GPUs in 2 nodes gives (2,2,4,0) copies, the
  // extra slots of layers 1 and 2 on GPUs {0,2} and {1,3}, two copies per GPU in total, balancedness 1 on every layer.
  const json request = {
      {"policy", "craft"},
      {"weights",
       {{6, 4, 1, 1, 1, 1, 1, 1}, {6, 4, 1, 1, 1, 1, 1, 1}, {5, 4, 2, 1, 1, 1, 1, 1}, {3, 3, 3, 3, 1, 1, 1, 1}}},
      {"replication_factor", 2},
      {"num_gpus", 4},
      {"num_nodes", 2}};
  const json plan = planned(dir, request);
  CHECK(plan["slots"] == json({{3, 2, 3, 2}, {2, 3, 2, 3}, {3, 3, 3, 3}, {2, 2, 2, 2}}));
  CHECK(plan["phy2log"][0].size() == 10);
  CHECK(plan["phy2log"][3].size() == 8);
  CHECK(plan["experts_per_gpu"] == json({10, 10, 10, 10}));
  for (const json& layer : plan["balancedness_after"]) {
    CHECK(layer.get<double>() == doctest::Approx(1.0));
  }
  // Why: gains of layer 3 at 1, 2 and 4 copies are .133 .133 .333 in the figure.
  const json& why = plan["craft"];
  CHECK(why["replication_factor"] == 2);
  CHECK(why["layer_copies"] == json({2, 2, 4, 0}));
  CHECK(why["factors"] == json::array());  // it was given
  REQUIRE(why["copy_counts"] == json({1, 2, 4}));
  CHECK(why["gains"][0][2].get<double>() == doctest::Approx(0.133).epsilon(0.005));
  CHECK(why["gains"][2][2].get<double>() == doctest::Approx(0.333).epsilon(0.005));
  // It reads back as a previous plan.
  std::filesystem::rename(dir / "plan.json", dir / "before.json");
  json again = request;
  again["previous"] = "before.json";
  CHECK(planned(dir, again)["moved_copies"] == 0);
}

TEST_CASE("plan: loads that are all 0 are warned of") {
  const TempDir dir;
  write_input(dir, "request.json", with("weights", {{0, 0, 0, 0}, {0, 0, 0, 0}}));
  const Outcome idle = run_epsim(dir, "plan request.json -o plan.json");
  CHECK(idle.exit_code == 0);
  CHECK(idle.err.find("warning: every load is 0") != std::string::npos);
  write_input(dir, "request.json", with("weights", {{0, 0, 0, 0}, {0, 0, 0, 1}}));
  CHECK(run_epsim(dir, "plan request.json -o other.json").err.find("every load") == std::string::npos);
}

TEST_CASE("plan: a trace and a model in place of weights") {
  const TempDir dir;
  const json request = {{"policy", "base"},
                        {"model", "olmoe-1b-7b"},
                        {"trace", {{"kind", "skew"}, {"low", 1.5}, {"high", 4.0}, {"high_share", 0.3}}},
                        {"num_gpus", 16},
                        {"num_nodes", 2}};
  const json plan = planned(dir, request);
  CHECK(plan["num_layers"] == 16);
  CHECK(plan["num_experts"] == 64);
  // OLMoE's expert: three matrices of 2048 x 1024 in bf16, 12 MiB; 4 experts x 16 layers on each GPU.
  CHECK(plan["expert_bytes"] == 3 * 2048 * 1024 * 2);
  CHECK(plan["memory_per_gpu_bytes"][0] == 64LL * 3 * 2048 * 1024 * 2);
}

TEST_CASE("plan: the model's expert groups are the default, as in a scenario") {
  const TempDir dir;
  // DeepSeek-R1's 8 groups of 32 experts divide over 2 nodes, so mode auto of eplb_sglang keeps each group's copies on
  // one node.
  constexpr int kSlotsOfNode = 272 / 2;
  json request = {{"policy", "eplb_sglang"},
                  {"model", "deepseek-r1"},
                  {"trace", {{"kind", "skew"}, {"low", 1.5}, {"high", 4.0}, {"high_share", 0.3}}},
                  {"num_gpus", 16},
                  {"num_nodes", 2},
                  {"num_replicas", 272}};
  const json plan = planned(dir, request);
  for (const json& layer : plan["log2phy"]) {
    for (std::size_t e = 0; e < 256; ++e) {
      const int node = layer[e / 32 * 32][0].get<int>() / kSlotsOfNode;
      CHECK(std::all_of(layer[e].begin(), layer[e].end(),
                        [&](const json& s) { return s.get<int>() / kSlotsOfNode == node; }));
    }
  }
  request["num_groups"] = 8;
  CHECK(planned(dir, request) == plan);
  request["num_groups"] = 1;  // does not divide over the nodes
  CHECK(planned(dir, request)["phy2log"] != plan["phy2log"]);
  // The policy's own mode stays: that of eplb is global, which knows no groups.
  request["policy"] = "eplb";
  request.erase("num_groups");
  const json global = planned(dir, request);
  request["options"] = {{"mode", "global"}};
  CHECK(planned(dir, request) == global);
}

TEST_CASE("plan: the file is kept unless --overwrite, and - is the terminal") {
  const TempDir dir;
  write_input(dir, "request.json", small_request().dump());
  const Outcome shown = run_epsim(dir, "plan request.json -o -");
  CHECK(shown.exit_code == 0);
  CHECK(json::parse(shown.out)["format"] == "epsim-plan-v1");
  CHECK(shown.err.empty());
  const Outcome first = run_epsim(dir, "plan request.json -o plan.json");
  CHECK(first.exit_code == 0);
  CHECK(first.out.find("no previous plan") != std::string::npos);
  CHECK(slurp(dir / "plan.json") == shown.out);
  write_input(dir, "plan.json", "mine");
  const Outcome second = run_epsim(dir, "plan request.json -o plan.json");
  CHECK(second.exit_code == 2);
  CHECK(second.err.find("--overwrite") != std::string::npos);
  CHECK(slurp(dir / "plan.json") == "mine");
  CHECK(run_epsim(dir, "plan request.json").exit_code == 2);
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(run_epsim(dir, "plan request.json -o pipe --overwrite").exit_code == 2);
  CHECK(std::filesystem::is_fifo(dir / "pipe"));
  CHECK(run_epsim(dir, "plan request.json -o . --overwrite").exit_code == 2);
  CHECK(run_epsim(dir, "plan request.json -o nowhere/plan.json").exit_code == 2);
  CHECK(run_epsim(dir, "plan").err.find("name the request") != std::string::npos);
}

TEST_CASE("plan: engine formats number layers as the model does, and refuse uneven capacities") {
  const TempDir dir;
  // DeepSeek-V2-Lite: 27 layers, the first one dense, 64 experts.
  json request = {{"policy", "eplb"},
                  {"model", "deepseek-v2-lite"},
                  {"trace", {{"kind", "uniform"}}},
                  {"options", {{"avoid_duplicates", true}}},
                  {"num_replicas", 72},
                  {"num_gpus", 8}};
  const json plan = planned(dir, request);
  const json sglang = planned(dir, request, "--format sglang");
  REQUIRE(sglang["physical_to_logical_map"].size() == 27);
  CHECK(sglang["physical_to_logical_map"][0][71] == 71 % 64);
  for (std::size_t l = 0; l < 26; ++l) {
    CHECK(sglang["physical_to_logical_map"][l + 1] == plan["phy2log"][l]);
  }
  CHECK(planned(dir, request, "--format vllm") == plan["phy2log"]);
  CHECK(planned(dir, request, "--format vllm-ascend")["moe_layer_count"] == 26);
  const Outcome trtllm = run_epsim(dir, "plan request.json -o - --format trtllm");
  CHECK(trtllm.out.find("\n  26: [") != std::string::npos);
  CHECK(trtllm.out.find("\n  0: [") == std::string::npos);
  CHECK(trtllm.out.find("\nnum_slots: 72\n") != std::string::npos);
  CHECK(trtllm.err.find("warning") == std::string::npos);
  // Without the model its first layer is missing, and the file cannot tell.
  json nameless = {{"policy", "eplb"}, {"weights", {{4, 3, 2, 1}, {1, 2, 3, 4}}}, {"num_gpus", 2}};
  write_input(dir, "nameless.json", nameless.dump());
  const Outcome all = run_epsim(dir, "plan nameless.json -o - --format sglang");
  CHECK(all.err.find("its 2 layers are taken to be all") != std::string::npos);
  CHECK(run_epsim(dir, "plan nameless.json -o - --format vllm").err.empty());

  request["policy"] = "craft";
  request["options"] = json::object();
  request.erase("num_replicas");
  request["replication_factor"] = 1;
  request["trace"] = {{"kind", "skew"}, {"low", 1.5}, {"high", 4.0}, {"high_share", 0.3}};
  write_input(dir, "request.json", request.dump());
  const Outcome refused = run_epsim(dir, "plan request.json -o uneven.json --format sglang");
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("sglang holds equally many experts") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "uneven.json"));
  const Outcome unknown = run_epsim(dir, "plan request.json -o uneven.json --format sglan");
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("sglang") != std::string::npos);
}

TEST_CASE("plan --explain: hottest experts, copies, and CRAFT's gains with the chosen count") {
  const TempDir dir;
  write_input(dir, "request.json", small_request().dump());
  const Outcome eplb = run_epsim(dir, "plan request.json --explain");
  CAPTURE(eplb.out);
  CHECK(eplb.exit_code == 0);
  // Layer 0: expert 0 takes 90 of 160 and has three copies; 0.6667 before, 1 after.
  for (const char* part : {"0: 56.2 % x3", "1: 18.8 % x1", "0.6667", "1.0000"}) {
    CHECK_MESSAGE(eplb.out.find(part) != std::string::npos, part);
  }
  // Figure 10 of CRAFT: gains of layer 3 (here number 2) at 1, 2 and 4 copies .133 .133 .333, of which 4 is chosen.
  const json craft = {
      {"policy", "craft"},
      {"weights",
       {{6, 4, 1, 1, 1, 1, 1, 1}, {6, 4, 1, 1, 1, 1, 1, 1}, {5, 4, 2, 1, 1, 1, 1, 1}, {3, 3, 3, 3, 1, 1, 1, 1}}},
      {"num_gpus", 4},
      {"replication_factor", 2}};
  write_input(dir, "request.json", craft.dump());
  const Outcome figure = run_epsim(dir, "plan request.json --explain -o plan.json");
  CAPTURE(figure.out);
  CHECK(figure.exit_code == 0);
  for (const char* part : {"+0.229", "[+0.429]", "+0.133", "[+0.333]", "replication factor 2: 8 copies"}) {
    CHECK_MESSAGE(figure.out.find(part) != std::string::npos, part);
  }
  for (const std::string& text : {eplb.out, figure.out}) {
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CHECK(epsim::display_width(line) <= 120);
    }
  }
  // The plan stays clean where it goes to the terminal.
  const Outcome both = run_epsim(dir, "plan request.json --explain -o -");
  CHECK(json::parse(both.out)["format"] == "epsim-plan-v1");
  CHECK(both.err.find("[+0.429]") != std::string::npos);
  // With an automatic factor the curve that it was chosen from is shown.
  json automatic = craft;
  automatic.erase("replication_factor");
  write_input(dir, "request.json", automatic.dump());
  CHECK(run_epsim(dir, "plan request.json --explain").out.find("chosen") != std::string::npos);
}

TEST_CASE("plan: EPLB in global mode ignores nodes that the GPUs do not divide over, as the original does") {
  const TempDir dir;
  // eplb.py plans hierarchically if and only if the groups divide over the nodes (4 % 3 != 0); it asserts that the GPUs
  // do in that mode alone.
  json request = {{"policy", "eplb"},
                  {"weights", {{9, 1, 2, 8, 3, 7, 4, 6}}},
                  {"num_replicas", 16},
                  {"num_gpus", 8},
                  {"num_groups", 4}};
  json one_node = planned(dir, request);
  request["num_nodes"] = 3;
  json three_nodes = planned(dir, request);
  CHECK(three_nodes["num_nodes"] == 3);
  three_nodes["num_nodes"] = 1;
  // On one node the original is hierarchical with its 4 groups, which orders equal loads in another way: global is
  // plan for plan what a request without groups gives.
  request.erase("num_nodes");
  request.erase("num_groups");
  CHECK(three_nodes == planned(dir, request));
  CHECK(three_nodes["balancedness_after"] == one_node["balancedness_after"]);
  request["policy"] = "eplb_sglang";  // mode auto, 1 group: 1 % 3 != 0
  request["num_nodes"] = 3;
  CHECK(planned(dir, request)["phy2log"] == three_nodes["phy2log"]);
}

TEST_CASE("plan: wrong requests end with a clear error and no file") {
  const TempDir dir;
  write_input(dir, "broken_plan.json",
              "{\"num_experts\": 4, \"num_gpus\": 2, \"phy2log\": [[0, 1, 2, 2], [0, 1, 2, 3]]}");
  write_input(dir, "other_plan.json", "{\"num_experts\": 2, \"num_gpus\": 2, \"phy2log\": [[0, 1]]}");
  const std::vector<WrongPlan> rows = {
      {"not JSON", "{\"policy\": \"eplb\",\n\"weights\": [[1, 2", {"request.json:2", "JSON"}},
      {"not JSON, but YAML", "policy: eplb\n", {"request.json:1", "JSON"}},
      {"unknown key", with("num_gpu", 2), {"num_gpu", "num_gpus", "model", "trace", "keep", "migration_limit"}},
      {"unknown option", with("options", {{"mod", "auto"}}), {"options.mod", "mode"}},
      {"unknown value", with("options", {{"ties", "libstdc"}}), {"options.ties", "libstdcxx"}},
      {"unknown policy", with("policy", "elpb"), {"elpb", "eplb"}},
      {"a policy without plans", with("policy", "libra"), {"policy", "every step", "epsim balance"}},
      {"no policy", with("policy", nullptr), {"policy", "required"}},
      {"no loads", with("weights", nullptr), {"weights", "trace"}},
      {"ragged weights", with("weights", {{1, 2, 3, 4}, {1, 2, 3}}), {"weights", "layer 1 has 3"}},
      {"negative weight", with("weights", {{1, 2, 3, -4}}), {"weights", "negative"}},
      {"loads without a sum", with("weights", {{1, 2, 3, 4}, {1e308, 1e308, 3, 4}}), {"weights", "of layer 1 add up"}},
      {"word for a weight", with("weights", {{1, 2, 3, "x"}}), {"weights", "x"}},
      {"no GPUs", with("num_gpus", nullptr), {"num_gpus", "required"}},
      {"zero GPUs", with("num_gpus", 0), {"num_gpus"}},
      {"nodes", with("num_nodes", 3), {"2 GPUs", "3 nodes"}},
      {"nodes in hierarchical mode",
       R"({"policy": "eplb", "weights": [[1, 2, 3, 4, 5, 6]], "num_gpus": 4, "num_nodes": 3, "num_groups": 3,
          "num_replicas": 8})",
       {"4 GPUs", "3 nodes", "mode global"}},
      {"nodes of a policy that looks at them",
       R"({"policy": "craft", "weights": [[1, 2, 3, 4]], "num_gpus": 4, "num_nodes": 3})",
       {"4 GPUs", "3 nodes"}},
      {"too few replicas", with("num_replicas", 3), {"num_replicas", "3 physical", "4 experts"}},
      {"replicas do not divide", with("num_replicas", 5), {"`num_replicas`: 5 physical", "2 GPUs", "a multiple of 2"}},
      {"copies on GPUs do not divide",
       R"({"policy": "eplb", "weights": [[1, 2, 3, 4, 5]], "num_gpus": 2, "replication_factor": 2})",
       {"`replication_factor`: 9 physical", "2 GPUs"}},
      {"said twice", with("replication_factor", 1), {"num_replicas", "replication_factor"}},
      {"option said twice", with("options", {{"num_redundant_experts", 2}}), {"num_replicas", "num_redundant_experts"}},
      {"copies of a policy without", with("policy", "contiguous"), {"num_replicas", "contiguous"}},
      {"groups and nodes",
       R"({"policy": "eplb", "options": {"mode": "hierarchical"}, "weights": [[1, 2, 3, 4]], "num_gpus": 4,
          "num_nodes": 4, "num_groups": 2, "num_replicas": 4})",
       {"hierarchical", "2 groups"}},
      {"nothing to keep", with("keep", "slots"), {"keep", "previous"}},
      {"nothing to migrate from", with("migration_limit", 2), {"migration_limit", "previous"}},
      {"no such plan", with("previous", "nowhere.json"), {"nowhere.json"}},
      {"a plan without expert 3", with("previous", "broken_plan.json"), {"broken_plan.json", "expert 3"}},
      {"a plan for another model", with("previous", "other_plan.json"), {"previous", "2 experts"}},
      {"another model's weights", with("model", "olmoe-1b-7b"), {"weights", "16 MoE layers"}},
      {"unknown model", with("model", "olmoe"), {"OLMoE-1B-7B"}},
  };
  for (const WrongPlan& row : rows) {
    CAPTURE(row.name);
    write_input(dir, "request.json", row.text);
    const Outcome outcome = run_epsim(dir, "plan request.json -o plan.json");
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    for (const std::string& word : row.mentions) {
      CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
    }
    CHECK(outcome.err.starts_with("epsim: "));
    CHECK_FALSE(std::filesystem::exists(dir / "plan.json"));
  }
}
