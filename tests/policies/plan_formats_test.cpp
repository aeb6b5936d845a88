// Engine formats: what is written reads back as the plan, and what cannot be held is refused.
#include "policies/plan_formats.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "policies/plan_io.h"
#include "sim/core/error.h"
#include "tests/support/errors.h"

namespace {

using epsim::export_plan;
using epsim::InputError;
using epsim::LayerPlan;
using epsim::ModelLayers;
using epsim::PlacementPlan;
using epsim::test::check_contains;
using epsim::test::error_of;
using nlohmann::json;

// Two MoE layers of three experts in two slots on each of two GPUs; layers 1 and 3 of a model of four.
PlacementPlan small_plan() {
  return {.policy = "test",
          .experts = 3,
          .gpus = 2,
          .layers = {epsim::uniform_layer({2, 0, 1, 2}, 2), epsim::uniform_layer({0, 1, 0, 2}, 2)}};
}
const ModelLayers kFormatLayers{{1, 3}, 4};

PlacementPlan uneven_plan() {
  PlacementPlan plan = small_plan();
  plan.layers[1] = LayerPlan{.slots = {0, 1, 0, 2}, .first_slot = {0, 3, 4}, .copy_rank = {}};
  return plan;
}

}  // namespace

TEST_CASE("sglang: one row per layer of the model, dense ones in SGLang's start order, and no other key") {
  const json file = json::parse(export_plan(small_plan(), kFormatLayers, "sglang"));
  CHECK(file == json({{"physical_to_logical_map", {{0, 1, 2, 0}, {2, 0, 1, 2}, {0, 1, 2, 0}, {0, 1, 0, 2}}}}));
}

TEST_CASE("trtllm: model layer numbers, slots in order") {
  const std::string file = export_plan(small_plan(), kFormatLayers, "trtllm");
  CHECK(file ==
        "initial_global_assignments:\n  1: [2, 0, 1, 2]\n  3: [0, 1, 0, 2]\nnum_slots: 4\nlayer_updates_per_iter: 0\n");
}

TEST_CASE("vllm: MoE layers only") {
  const json file = json::parse(export_plan(small_plan(), kFormatLayers, "vllm"));
  CHECK(file == json({{2, 0, 1, 2}, {0, 1, 0, 2}}));
}

TEST_CASE("vllm-ascend: the lists of all devices in order are the plan's slots") {
  const json file = json::parse(export_plan(small_plan(), kFormatLayers, "vllm-ascend"));
  CHECK(file["moe_layer_count"] == 2);
  const PlacementPlan plan = small_plan();
  for (std::size_t l = 0; l < 2; ++l) {
    const json& layer = file["layer_list"][l];
    CHECK(layer["layer_id"] == l);
    CHECK(layer["device_count"] == 2);
    std::vector<int> slots;
    for (std::size_t g = 0; g < 2; ++g) {
      CHECK(layer["device_list"][g]["device_id"] == g);
      for (const json& expert : layer["device_list"][g]["device_expert"]) {
        slots.push_back(expert.get<int>());
      }
    }
    CHECK(slots == plan.layers[l].slots);
  }
}

TEST_CASE("vllm-ascend: two copies on one GPU are refused, the others hold them") {
  PlacementPlan plan = small_plan();
  plan.layers[1] = epsim::uniform_layer({0, 0, 1, 2}, 2);
  const auto error = error_of<InputError>([&] { export_plan(plan, kFormatLayers, "vllm-ascend"); });
  check_contains(error.what(), {"vllm-ascend", "expert 0", "GPU 0", "layer 1", "avoid_duplicates"});
  CHECK_NOTHROW(export_plan(plan, kFormatLayers, "sglang"));
}

TEST_CASE("every format refuses GPUs or layers with different numbers of slots") {
  PlacementPlan longer = small_plan();
  longer.layers[1] = epsim::uniform_layer({0, 1, 2, 0, 1, 2}, 2);
  for (const std::string& format : epsim::engine_formats()) {
    CAPTURE(format);
    const auto error = error_of<InputError>([&] { export_plan(uneven_plan(), kFormatLayers, format); });
    check_contains(error.what(), {format.c_str(), "3 on GPU 0 in layer 1", "2 on GPU 0 in layer 0"});
    CHECK_THROWS_AS(export_plan(longer, kFormatLayers, format), InputError);
  }
}

TEST_CASE("an unknown format names the known ones") {
  const auto error = error_of<InputError>([&] { export_plan(small_plan(), kFormatLayers, "sglan"); });
  check_contains(error.what(), {"sglang", "trtllm", "vllm-ascend"});
}

TEST_CASE("the plan file reads back as the same plan, ranks and uneven slots included") {
  for (PlacementPlan plan : {small_plan(), uneven_plan()}) {
    plan.layers[0].copy_rank = {1, 0, 0, 0};  // slot 3 holds the original of expert 2, slot 0 its copy
    const std::string text =
        "{\"policy\": \"test\", \"num_experts\": 3, \"num_gpus\": 2,\n" + epsim::plan_maps_json(plan) + "}";
    const PlacementPlan back = epsim::parse_plan(text, "plan.json");
    CHECK(back.policy == "test");
    REQUIRE(back.layers.size() == 2);
    for (std::size_t l = 0; l < 2; ++l) {
      CHECK(back.layers[l].slots == plan.layers[l].slots);
      CHECK(back.layers[l].first_slot == plan.layers[l].first_slot);
    }
    CHECK(back.layers[0].copy_rank == std::vector<int>{1, 0, 0, 0});
    CHECK(epsim::plan_maps_json(back) == epsim::plan_maps_json(plan));
  }
}

TEST_CASE("a plan file whose maps contradict each other is refused") {
  struct Wrong {
    const char* text;
    const char* mentions;
  };
  const std::string head = "{\"num_experts\": 2, \"num_gpus\": 2, ";
  for (const Wrong& row :
       {Wrong{"\"phy2log\": [[0, 1, 0]]}", "do not divide"}, Wrong{"\"phy2log\": [[0, 2]]}", "expert 2"},
        Wrong{"\"phy2log\": [[0, 0]]}", "expert 1 has no copy"}, Wrong{"\"phy2log\": []}", "no layer"},
        Wrong{"\"phy2log\": [[0, 1, 0]], \"slots\": [[1, 1]]}", "slots"},
        Wrong{"\"phy2log\": [[0, 1, 0]], \"slots\": [[4, -1]]}", "slots"},
        Wrong{"\"phy2log\": [[0, 1]], \"log2phy\": [[[1], [0]]]}", "copy of expert 0 into slot 1"},
        Wrong{"\"phy2log\": [[0, 1]], \"log2phy\": [[[0], []]]}", "1 slots of 2"}, Wrong{"\"phy2log\": 3}", "phy2log"},
        Wrong{"\"phy2log\"", "not valid JSON"}}) {
    CAPTURE(row.text);
    const auto error = error_of<InputError>([&] { epsim::parse_plan(head + row.text, "plan.json"); });
    check_contains(error.what(), {"plan.json", row.mentions});
  }
}
