// What attention takes kernel by kernel, against TensorRT-LLM 1.3.0rc20's module as it was measured whole, decodes in a CUDA
// graph: projections, norms of latents, rotary embedding, cache write and scores of DeepSeek-V3, fp8 weights and cache
// (NVIDIA AIConfigurator, commit 095f58a). No fit has seen these tables.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/roofline.h"
#include "tests/support/paths.h"
#include "traces/format/csv.h"

using namespace epsim;

namespace {

// Microseconds of one layer by (heads of the GPU, sequences, tokens of each).
using Modules = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double>;

Modules modules_of(const std::string& gpu, bool decode) {
  ByteInput input(test::shared_dir() / "data/aiconfigurator" / gpu / "mla/trtllm/1.3.0rc20" /
                  fmt::format("mla_{}_module_perf.csv.gz", decode ? "generation" : "context"));
  CsvReader csv(input);
  Modules out;
  while (csv.next()) {
    const auto number = [&](const char* column) { return csv.integer(csv.column(column)); };
    if (csv.text(csv.column("kv_cache_dtype")) == "fp8" && csv.text(csv.column("gemm_type")) == "fp8_block" &&
        (decode || number("step") == 0)) {
      out[{number("num_heads"), number("batch_size"), decode ? number("isl") + number("step") - 1 : number("isl")}] =
          csv.number(csv.column("latency")) * 1e3;
    }
  }
  return out;
}

RankBatch batch_of(std::int64_t sequences, std::int64_t tokens, bool decode) {
  const auto s = static_cast<double>(sequences), n = static_cast<double>(tokens);
  return decode ? RankBatch{.decode_tokens = sequences, .decode_context = s * n, .sampled = sequences}
                : RankBatch{
                      .prefill_tokens = sequences * tokens, .prefill_pairs = s * n * (n + 1) / 2, .sampled = sequences};
}

double price_of(const std::string& node_name, int tp, const RankBatch& batch) {
  MoeSpec model = find_model("DeepSeek-R1");
  model.dtype = WeightType::kFp8;
  model.bytes_per_kv = 1;
  NodeEntry node = find_node(node_name);
  node.compute.use_kernels_of("trtllm");
  const ComputeModel compute(model, node.spec.gpu, {.gpus = 8, .attention_tp = tp}, node.compute);
  // The norms ahead of attention and of the FFN are not in the module: two rows of 7168 in bf16 read, two written.
  const double moved = static_cast<double>(batch.tokens()) * 7168 * 2 * 4;
  const double norm = moved / (node.spec.gpu.memory_bandwidth.count() * node.compute.memory_bound.value) +
                      node.compute.kernel_constant.value;
  return (compute.attention(batch).time.count() - 2 * norm) * 1e6;
}

// Each within 15 % (prompts 20) of the module, their geometric mean within 8 %.
void check_sums(const std::string& gpu, const std::string& node, int tp, bool decode) {
  const Modules modules = modules_of(gpu, decode);
  double logs = 0;
  int points = 0;
  const auto check = [&](std::int64_t sequences, std::int64_t tokens) {
    const double here = price_of(node, tp, batch_of(sequences, tokens, decode));
    const double there = modules.at({128 / tp, sequences, tokens});
    CAPTURE(
        fmt::format("{} TP{}, {} x {} tokens: {:.1f} us, measured {:.1f}", node, tp, sequences, tokens, here, there));
    CHECK(std::fabs(here / there - 1) < (decode ? 0.15 : 0.2));
    logs += std::log(here / there);
    ++points;
  };
  const std::vector<std::int64_t> lengths{512, 1024, 2048, 4096, 8192}, contexts{1024, 8192};
  const std::vector<std::int64_t> prompts{1, 4}, decodes{1, 4, 16, 32, 64, 128};
  for (const std::int64_t tokens : decode ? contexts : lengths) {
    for (const std::int64_t sequences : decode ? decodes : prompts) {
      check(sequences, tokens);
    }
  }
  MESSAGE(fmt::format("{} TP{} {}: {:.3f} of the module", node, tp, decode ? "decodes" : "prompts",
                      std::exp(logs / points)));
  CHECK(std::fabs(std::exp(logs / points) - 1) < 0.08);
}

}  // namespace

TEST_CASE("the kernels of attention add up to the module") {
  for (const int tp : {1, 8}) {
    for (const bool decode : {true, false}) {
      check_sums("h200_sxm", "DGX-H200", tp, decode);
      check_sums("b200_sxm", "p6-b200.48xlarge", tp, decode);
    }
  }
}
