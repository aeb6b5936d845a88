#include "models/catalogue/catalogue.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "models/catalogue/model_catalogue.h"
#include "sim/core/config.h"
#include "sim/core/error.h"
#include "tests/support/paths.h"

using namespace epsim;

namespace {

// Writes a node file and reads it as a user would name it.
NodeEntry node_from(const test::TempDir& folder, const std::string& text) {
  const auto file = folder / "box.yaml";
  std::ofstream(file) << text;
  return find_node(file.string());
}

void check_refused(const test::TempDir& folder, const std::string& text, int line, const std::string& key,
                   const std::string& word) {
  CAPTURE(text);
  try {
    node_from(folder, text);
    FAIL("accepted, although it should complain about " << key);
  } catch (const InputError& e) {
    CHECK(e.place.file == (folder / "box.yaml").string());
    CHECK(e.place.line == line);
    CHECK(e.place.key == key);
    CHECK_MESSAGE(e.problem.find(word) != std::string::npos, e.problem);
  }
}

const std::string kBox =
    "summary: a box\n"
    "gpu: H100\n"
    "gpus: 8\n"
    "intra: nvswitch\n"
    "intra_rate: 450GB/s\n"
    "nics: 8\n"
    "nic_rate: 400Gb/s\n"
    "nic_kind: infiniband\n"
    "intra_profile: nvlink4-h100\n"
    "inter_profile: efa-p5\n";

}  // namespace

TEST_CASE("every GPU and node of the catalogue can be read") {
  for (const CatalogueItem& item : list_gpus()) {
    CAPTURE(item.name);
    const GpuEntry gpu = find_gpu(item.name);
    CHECK(gpu.spec.name == item.name);
    CHECK(!item.summary.empty());
    for (const char* figure : {"bf16", "memory", "memory_bandwidth"}) {
      CHECK(!gpu.sources.at(figure).empty());
    }
    CHECK(gpu.sources.contains("fp8") == (gpu.spec.fp8_peak.count() > 0));
  }
  for (const CatalogueItem& item : list_nodes()) {
    CAPTURE(item.name);
    const NodeEntry node = find_node(item.name);
    CHECK(node.spec.name == item.name);
    CHECK(!item.summary.empty());
    ClusterSpec{node.spec, 1}.validate();
    for (const char* figure : {"gpus", "intra_rate", "nics"}) {
      CHECK(!node.sources.at(figure).empty());
    }
    CHECK(node.network.inter.curves.empty() == (node.spec.nics == 0));
  }
  CHECK(list_gpus().size() == 11);
  CHECK(list_nodes().size() == 17);
}

TEST_CASE("files that come with the program are within the limits of a user's") {
  int files = 0;
  for (const char* folder : {"models/architectures", "models/hardware", "calibration/profiles", "traces/presets"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_dir() / folder)) {
      if (entry.path().extension() == ".yaml") {
        CHECK_NOTHROW_MESSAGE(Config::from_file(entry.path()), entry.path().string());
        ++files;
      }
    }
  }
  CHECK(files > 60);
}

TEST_CASE("data-sheet figures of the GPUs") {
  struct Row {
    const char* name;
    double bf16_tf, fp8_tf, gib, gbps;
  };
  for (const Row& r : {Row{"A100-80", 312, 0, 79.15, 2039}, Row{"H100", 989, 1978, 81559 / 1024.0, 3350},
                       Row{"H200", 989, 1978, 143771 / 1024.0, 4800}, Row{"H800", 989, 1978, 81559 / 1024.0, 3350},
                       Row{"B200", 2250, 4500, 180, 7700}, Row{"GB200", 2500, 5000, 189471 / 1024.0, 8000},
                       Row{"B300", 2250, 4500, 275040 / 1024.0, 7750}, Row{"GB300", 2500, 5000, 284208 / 1024.0, 8000},
                       Row{"RTX-3090", 71, 0, 24e9 / kGiB, 936}, Row{"RTX-4090", 165, 330, 24e9 / kGiB, 1008},
                       Row{"RTX-4090-48", 165, 330, 48e9 / kGiB, 1008}}) {
    CAPTURE(r.name);
    const GpuSpec gpu = find_gpu(r.name).spec;
    CHECK(gpu.bf16_peak.count() == doctest::Approx(r.bf16_tf * 1e12));
    CHECK(gpu.fp8_peak.count() == doctest::Approx(r.fp8_tf * 1e12));
    CHECK(to_gib(gpu.memory) == doctest::Approx(r.gib));
    CHECK(gpu.memory_bandwidth.count() == doctest::Approx(r.gbps * 1e9));
  }
}

TEST_CASE("links of the nodes: one GPU's port, and its share of the NICs") {
  struct Row {
    const char* name;
    const char* gpu;
    int gpus;
    double port_gbps, nic_share_gbps;
  };
  for (const Row& r :
       {Row{"p4de.24xlarge", "A100-80", 8, 300, 6.25}, Row{"p5.48xlarge", "H100", 8, 450, 50},
        Row{"p5e.48xlarge", "H200", 8, 450, 50}, Row{"p5en.48xlarge", "H200", 8, 450, 50},
        Row{"p6-b200.48xlarge", "B200", 8, 900, 50}, Row{"DGX-H100", "H100", 8, 450, 50},
        Row{"DGX-H200", "H200", 8, 450, 50}, Row{"HGX-H800", "H800", 8, 200, 50}, Row{"DGX-B300", "B300", 8, 900, 100},
        Row{"GB300-NVL72", "GB300", 72, 900, 100}, Row{"GB200-NVL72", "GB200", 72, 900, 100},
        Row{"grace-8x3090", "RTX-3090", 8, 31.5, 0}, Row{"grace-2x4090", "RTX-4090-48", 2, 31.5, 3.125 / 2},
        Row{"grace-4x4090", "RTX-4090-48", 4, 31.5, 3.125 / 4}}) {
    CAPTURE(r.name);
    const NodeSpec node = find_node(r.name).spec;
    CHECK(node.gpu.name == r.gpu);
    CHECK(node.gpus == r.gpus);
    CHECK(node.intra_rate.count() == doctest::Approx(r.port_gbps * 1e9));
    CHECK(node.node_rate().count() / node.gpus == doctest::Approx(r.nic_share_gbps * 1e9));
    CHECK((node.intra == IntraLink::kPcie) == (r.port_gbps < 100));
  }
}

TEST_CASE("names are found whatever their case and hyphens") {
  CHECK(find_node("P4DE.24XLARGE").spec.name == "p4de.24xlarge");
  CHECK(find_node("dgx h100").spec.name == "DGX-H100");
  CHECK(find_node("Grace_8x3090").spec.name == "grace-8x3090");
  CHECK(find_gpu("rtx 4090").spec.name == "RTX-4090");
  CHECK(find_model("deepseek_v3").name == "DeepSeek-R1");
  CHECK(find_model("GPT-OSS-120B").name == "gpt-oss-120b");
}

TEST_CASE("an unknown name lists all, the nearest first") {
  const auto problem = [](const std::function<void()>& look) -> std::string {
    try {
      look();
    } catch (const InputError& e) {
      return e.problem;
    }
    return "";
  };
  const std::string node = problem([] { find_node("p5em.48xlarge"); });
  CHECK(node.find("unknown node 'p5em.48xlarge'") == 0);
  CHECK(node.find("p5en.48xlarge") < node.find("GB200-NVL72"));
  CHECK(node.find("GB200-NVL72") != std::string::npos);
  const std::string gpu = problem([] { find_node("h200"); });
  CHECK(gpu.find("H200 is a GPU, not a node; nodes with it: p5e.48xlarge, p5en.48xlarge, DGX-H200.") == 0);
  CHECK(problem([] { find_gpu("H10"); }).find("nearest first: H100") != std::string::npos);
  // Names on Hugging Face.
  CHECK(problem([] { find_model("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"); }).find("as Qwen3-235B-A22B;") !=
        std::string::npos);
  CHECK(problem([] { find_model("deepseek-ai/DeepSeek-V3.2-Exp"); }).find("as DeepSeek-V3.2-Exp;") !=
        std::string::npos);
  CHECK(problem([] { find_model("deepseek-ai/DeepSeek-V3-0324/"); }).find("as DeepSeek-V3;") != std::string::npos);
  CHECK(problem([] { find_model("meta-llama/Llama-4-Scout-17B-16E-Instruct"); }).find("as Llama-4-Scout;") !=
        std::string::npos);
  for (const char* other : {"zai-org/GLM-4.5-Air", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"}) {
    CHECK(problem([other] { find_model(other); }).find("the catalogue lacks a model of that name") !=
          std::string::npos);
  }
  for (const char* other : {"./Qwen3-8B", "a/model.yaml"}) {
    CHECK(problem([other] { find_model(other); }).find("there is no such file") != std::string::npos);
  }
  const std::string model = problem([] { find_model("DeepSek-R1"); });
  CHECK(model.find("nearest first: DeepSeek-R1") != std::string::npos);
  CHECK(model.find("DeepSeek-V3") != std::string::npos);
  CHECK(model.find("OLMoE-1B-7B") != std::string::npos);
}

TEST_CASE("hardware without measurements of its own is extrapolated, and says from what") {
  const auto origin = [](const char* name) {
    return find_node(name).network.intra.time(CollectiveKind::kAllToAll, 8, Seconds(1e-3)).origin;
  };
  CHECK(origin("p4de.24xlarge") == Origin::kInterpolated);
  CHECK(origin("DGX-H100") == Origin::kInterpolated);
  CHECK(origin("HGX-H800") == Origin::kExtrapolated);
  CHECK(find_node("HGX-H800").network.intra.carried_over.find("H100") != std::string::npos);
  CHECK(find_gpu("A100-80").compute.weight_read.origin == Origin::kInterpolated);
  CHECK(find_gpu("RTX-3090").compute.weight_read.origin == Origin::kExtrapolated);
  CHECK(find_gpu("GB200").compute.dense_gemm.at(4096).origin == Origin::kExtrapolated);
  for (const CatalogueItem& item : list_nodes()) {
    const NodeEntry node = find_node(item.name);
    CAPTURE(item.name);
    const bool own = item.name == "p5.48xlarge" || item.name == "p4de.24xlarge" || item.name == "DGX-H100" ||
                     item.name == "DGX-H200" || node.spec.nics == 0;
    CHECK(node.network.inter.carried_over.empty() == own);
  }
}

TEST_CASE("a node file of the user") {
  const test::TempDir folder;
  const NodeEntry box = node_from(folder, kBox);
  CHECK(box.spec.name == "box");
  CHECK(box.spec.gpu.name == "H100");
  CHECK(box.spec.node_rate().count() == doctest::Approx(400e9));
  CHECK(box.network.intra.time(CollectiveKind::kAllToAll, 8, Seconds(1e-3)).origin == Origin::kInterpolated);

  // Based on a catalogue entry: GRACE's boxes with the paper's reading of their link. The curves were measured at 31.5
  // GB/s, so at 63 they are carried over, and equal wire time costs equal time.
  const NodeEntry fast = node_from(folder, "base: grace-4x4090\nintra_rate: 63GB/s\n");
  CHECK(fast.spec.gpus == 4);
  CHECK(fast.spec.intra_rate.count() == 63e9);
  CHECK(fast.spec.nic_kind == "ethernet");
  CHECK(fast.network.intra.time(CollectiveKind::kAllToAll, 4, Seconds(1e-3)).time ==
        find_node("grace-4x4090").network.intra.time(CollectiveKind::kAllToAll, 4, Seconds(1e-3)).time);
  const NodeEntry slow_nic = node_from(folder, "base: p5.48xlarge\nnic_rate: 50Gb/s\n");
  CHECK(slow_nic.network.inter.carried_over == "measured at 50.00 GB/s per GPU, used for 25.00");
  CHECK(slow_nic.network.intra.carried_over.empty());

  const std::string own_gpu =
      "base: DGX-H100\n"
      "gpu_spec:\n"
      "  name: H20\n"
      "  summary: an H100 with a seventh of its flops\n"
      "  bf16: 148TF/s\n"
      "  fp8: 296TF/s\n"
      "  memory: 96GB\n"
      "  memory_bandwidth: 4000GB/s\n"
      "  compute_profile: h100\n";
  const NodeEntry h20 = node_from(folder, own_gpu);
  CHECK(h20.spec.gpu.name == "H20");
  CHECK(h20.compute.carried_over == "measured on a GPU of 989 TF/s, used for one of 148");
  CHECK(h20.compute.weight_read.origin == Origin::kExtrapolated);
}

TEST_CASE("errors in a node file name file, line and key") {
  const test::TempDir folder;
  check_refused(folder, kBox + "gpu_count: 8\n", 11, "gpu_count", "unknown key");
  check_refused(folder, kBox + "gpus: 8\n", 11, "gpus", "twice");
  check_refused(folder, "base: DGX-H100\ngpus: 8.5\n", 2, "gpus", "whole number");
  check_refused(folder, "base: DGX-H100\nintra_rate: 450\n", 2, "intra_rate", "no unit");
  check_refused(folder, "base: DGX-H100\nintra_rate: -450GB/s\n", 2, "intra_rate", "positive");
  check_refused(folder, "base: DGX-H100\nintra: infiniband\n", 2, "intra", "nvswitch");
  check_refused(folder, "base: DGX-H100\nintra_carried_over: x\n", 2, "intra_carried_over", "intra_profile");
  check_refused(folder, "base: ./other.yaml\n", 1, "base", "catalogue");
  check_refused(folder, "gpu: H100\n", 1, "summary", "required");
  check_refused(folder, "summary: no GPU\n", 1, "gpu", "required");
  check_refused(folder, "base: DGX-H100\ngpu: H100\ngpu_spec: {name: x}\n", 3, "gpu_spec", "either");
  CHECK_THROWS_AS(node_from(folder, "base: DGX-H1000\n"), InputError);
  CHECK_THROWS_AS(node_from(folder, "gpus: [\n"), InputError);
  CHECK_THROWS_AS(find_node((folder / "absent.yaml").string()), InputError);
  CHECK_THROWS_AS(find_node(folder.path().string() + "/"), InputError);
}

TEST_CASE("models: expert size and KV cache of a token, all in bf16") {
  struct Row {
    const char* name;
    double expert_mib;
    double kv_bytes;  // unsplit
    int moe_layers;
  };
  for (const Row& r :
       {Row{"DeepSeek-R1", 84, 70272, 58}, Row{"Kimi-K2", 84, 70272, 60}, Row{"DeepSeek-V2", 45, 69120, 59},
        Row{"DeepSeek-V2-Lite", 16.5, 31104, 26}, Row{"Qwen3-235B-A22B", 36, 192512, 94},
        Row{"Qwen3-30B-A3B", 9, 98304, 48}, Row{"GLM-4.5", 45, 376832, 89}, Row{"OLMoE-1B-7B", 12, 131072, 16},
        Row{"Qwen2-57B-A14B", 52.5, 57344, 28}, Row{"Mixtral-8x7B", 336, 131072, 32},
        Row{"Mixtral-8x22B", 576, 229376, 56},
        // Every other layer has a window of 128 tokens: 18 layers x 2 x 8 heads x 64 x 2 B grow with the context.
        Row{"gpt-oss-120b", 47.4609375, 18 * 2 * 8 * 64 * 2, 36}, Row{"Llama-4-Maverick", 240, 196608, 24},
        Row{"Llama-4-Scout", 240, 48 * 2 * 8 * 128 * 2, 48}, Row{"GLM-4.6", 45, 92 * 2 * 8 * 128 * 2, 89},
        Row{"MiniMax-M2", 27, 62 * 2 * 8 * 128 * 2, 62},
        // Full attention in 12 of 48 layers.
        Row{"Qwen3-Next-80B-A3B", 6, 12 * 2 * 2 * 256 * 2, 48},
        // R1's latent in bf16, and an index key of 128 B with a scale of 4 B.
        Row{"DeepSeek-V3.2", 84, 61 * (576 * 2 + 128 + 4), 58}}) {
    CAPTURE(r.name);
    MoeSpec m = find_model(r.name);
    m.dtype = WeightType::kBf16;
    CHECK(m.expert_bytes().count() == r.expert_mib * kMiB);
    CHECK(m.kv_bytes_per_token(1).count() == r.kv_bytes);
    CHECK(m.moe_layers() == r.moe_layers);
    CHECK(static_cast<int>(m.moe_layer_numbers().size()) == r.moe_layers);
    CHECK(!m.source.empty());
  }
}

// GRACE-MoE's three models among them, as its Table 1 has them (claim G19).
TEST_CASE("models: the parts add up to the published number of parameters") {
  struct Row {
    const char* name;
    double billions;
  };
  for (const Row& r : {Row{"DeepSeek-R1", 671},
                       Row{"Kimi-K2", 1026},
                       Row{"DeepSeek-V2", 236},
                       Row{"DeepSeek-V2-Lite", 15.7},
                       Row{"Qwen3-235B-A22B", 235},
                       Row{"Qwen3-30B-A3B", 30.5},
                       Row{"GLM-4.5", 355},
                       Row{"OLMoE-1B-7B", 6.92},
                       Row{"Qwen2-57B-A14B", 57.4},
                       Row{"Mixtral-8x7B", 46.7},
                       Row{"Mixtral-8x22B", 141},
                       Row{"gpt-oss-120b", 117},
                       Row{"Llama-4-Maverick", 400},
                       Row{"Llama-4-Scout", 109 - 0.9},  // its vision tower apart
                       Row{"GLM-4.6", 355},
                       Row{"MiniMax-M2", 230},
                       Row{"Qwen3-Next-80B-A3B", 80},
                       Row{"DeepSeek-V3.2", 671 + 0.85},  // V3 and 61 indexers of 14 million
                       Row{"Kimi-K2.5", 1026},
                       Row{"gpt-oss-20b", 21},
                       Row{"GLM-5", 744},
                       Row{"Qwen3.5-397B-A17B", 397},
                       Row{"Qwen3-Coder-480B-A35B", 480}}) {
    CAPTURE(r.name);
    MoeSpec m = find_model(r.name);
    m.dtype = WeightType::kBf16;  // two bytes each
    const int linear = m.layers_of(AttentionReach::kLinear);
    const Bytes attention = (m.attention_replicated_bytes() + m.attention_split_bytes()) * (m.layers - linear) +
                            m.linear_attention_bytes() * linear;
    const Bytes moe = (m.expert_bytes() * m.experts + m.shared_expert_bytes() + m.router_bytes()) * m.moe_layers();
    const Bytes total = attention + moe + m.dense_ffn_bytes() * m.dense_layers() + m.embedding_bytes();
    CHECK(total.count() / 2 / 1e9 == doctest::Approx(r.billions).epsilon(0.012));
  }
}

TEST_CASE("models: the published number of active parameters, to the billion") {
  struct Row {
    const char* name;
    double billions;
    bool with_embeddings;  // whether the publisher counts them
  };
  for (const Row& r : {Row{"Qwen3-Next-80B-A3B", 3, false}, Row{"MiniMax-M2", 10, false}, Row{"GLM-4.6", 32, false},
                       Row{"DeepSeek-V3.2", 37, false}, Row{"Llama-4-Scout", 17, true}, Row{"GLM-5", 40, false},
                       Row{"Qwen3-Coder-480B-A35B", 35, true}, Row{"Qwen3.5-397B-A17B", 17, true}}) {
    CAPTURE(r.name);
    MoeSpec m = find_model(r.name);
    m.dtype = WeightType::kBf16;  // two bytes each
    const int linear = m.layers_of(AttentionReach::kLinear);
    const Bytes attention = (m.attention_replicated_bytes() + m.attention_split_bytes()) * (m.layers - linear) +
                            m.linear_attention_bytes() * linear;
    const Bytes moe = (m.expert_bytes() * m.top_k + m.shared_expert_bytes() + m.router_bytes()) * m.moe_layers();
    const Bytes active = attention + moe + m.dense_ffn_bytes() * m.dense_layers() +
                         m.embedding_bytes() * (r.with_embeddings ? 1.0 : 0.0);
    CHECK(std::round(active.count() / 2 / 1e9) == r.billions);
  }
}

// Sizes of the checkpoints: 60.8 and 12.8 GiB of mxfp4 (OpenAI, gpt-oss model card, Table 1), 594 GB of int4
// (moonshotai/Kimi-K2-Thinking). Experts alone have 4 bits, and their share of the scales.
TEST_CASE("models: what a checkpoint of mixed types takes") {
  const auto gb = [](const char* name) {
    const MoeSpec m = find_model(name);
    const Bytes attention = (m.attention_replicated_bytes() + m.attention_split_bytes()) * m.layers;
    const Bytes moe = (m.expert_bytes() * m.experts + m.shared_expert_bytes() + m.router_bytes()) * m.moe_layers();
    return (attention + moe + m.dense_ffn_bytes() * m.dense_layers() + m.embedding_bytes()).count() / 1e9;
  };
  CHECK(gb("gpt-oss-120b") == doctest::Approx(60.8 * 1.073741824).epsilon(0.005));
  CHECK(gb("gpt-oss-20b") == doctest::Approx(12.8 * 1.073741824).epsilon(0.005));
  CHECK(gb("Kimi-K2.5") == doctest::Approx(594).epsilon(0.005));
}

TEST_CASE("models: the cache of a sequence beside that of its tokens") {
  // Windows: 18 layers x 128 tokens x 2 x 8 heads x 64 x 2 B; KV heads split over GPUs.
  CHECK(find_model("gpt-oss-120b").kv_bytes_per_sequence(1).count() == 18.0 * 128 * 2 * 8 * 64 * 2);
  CHECK(find_model("gpt-oss-120b").kv_bytes_per_sequence(8).count() == 18.0 * 128 * 2 * 64 * 2);
  // Gated DeltaNet: 32 states of 128 x 128 in float32 and 3 steps of a convolution over 2 x 16 x 128 + 32 x 128 columns
  // in bf16, in 36 layers.
  CHECK(find_model("Qwen3-Next").kv_bytes_per_sequence(1).count() == 36.0 * (32 * 128 * 128 * 4 + 3 * 8192 * 2));
  CHECK(find_model("Qwen3-Next").kv_bytes_per_sequence(4).count() == 9.0 * (32 * 128 * 128 * 4 + 3 * 8192 * 2));
  for (const char* name : {"DeepSeek-R1", "DeepSeek-V3.2", "Llama-4-Scout", "MiniMax-M2", "GLM-4.6"}) {
    CHECK(find_model(name).kv_bytes_per_sequence(1).count() == 0);
  }
}

TEST_CASE("a model file of the user") {
  const test::TempDir folder;
  const auto file = folder / "tiny.yaml";
  const std::string text =
      "name: tiny\nsummary: two layers\nsource: made up\nlayers: 2\nhidden: 64\nexperts: 4\ntop_k: 2\n"
      "moe_intermediate: 32\nvocab: 100\ntied_embeddings: true\ndtype: fp8\n"
      "attention: {kind: gqa, heads: 4, kv_heads: 2, head_dim: 16}\n";
  std::ofstream(file) << text;
  const MoeSpec tiny = find_model(file.string());
  CHECK(tiny.moe_layers() == 2);
  CHECK(tiny.expert_bytes().count() == 3 * 64 * 32);
  CHECK(tiny.embedding_bytes().count() == 100 * 64 * 2);  // bf16, whatever the weights
  const auto refused = [&](const std::string& more, int line, const std::string& key) {
    std::ofstream(file) << text << more;
    try {
      find_model(file.string());
      FAIL("accepted: " << more);
    } catch (const InputError& e) {
      CAPTURE(e.what());
      CHECK(e.place.file == file.string());
      CHECK(e.place.line == line);
      CHECK(e.place.key == key);
    }
  };
  refused("experts_per_token: 2\n", 13, "experts_per_token");
  refused("expert_groups: 3\n", 1, "");  // 4 experts do not divide into 3 groups
  refused("dense_intermediate: -1\n", 13, "dense_intermediate");
  const std::string attention = "attention: {kind: gqa, heads: 4, kv_heads: 2, head_dim: 16";
  const auto with = [&](const std::string& more) {
    std::ofstream(file) << text.substr(0, text.find("attention:")) << attention << ", " << more << "}\n";
    return find_model(file.string());
  };
  CHECK(with("sliding: {layers: 1, window: 32}").layers_of(AttentionReach::kFull) == 1);
  CHECK_THROWS_AS(with("sliding: {layers: 3, window: 32}"), InputError);  // of two layers
  CHECK_THROWS_AS(with("sliding: {layers: 1}"), InputError);
  CHECK_THROWS_AS(with("linear: {layers: 1}"), InputError);
  CHECK_THROWS_AS(with("sparse: {layers: 2, top_k: 8, index_heads: 2, index_head_dim: 8}"), InputError);  // not MLA
}
