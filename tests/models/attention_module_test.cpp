// What a decode's attention takes kernel by kernel, against TensorRT-LLM 1.3.0rc20's module as it was measured whole in a
// CUDA graph: projections, norms of latents, rotary embedding, cache write and scores of DeepSeek-V3, fp8 weights and cache
// (NVIDIA AIConfigurator, commit 095f58a). No fit has seen these tables.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/roofline.h"
#include "tests/support/paths.h"
#include "traces/format/csv.h"

using namespace epsim;

namespace {

// Microseconds of one layer by (heads of the GPU, sequences, tokens of each).
using Modules = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double>;

Modules modules_of(const std::string& gpu) {
  ByteInput input(test::shared_dir() / "data/aiconfigurator" / gpu /
                  "mla/trtllm/1.3.0rc20/mla_generation_module_perf.csv.gz");
  CsvReader csv(input);
  Modules out;
  while (csv.next()) {
    const auto number = [&](const char* column) { return csv.integer(csv.column(column)); };
    if (csv.text(csv.column("kv_cache_dtype")) == "fp8" && csv.text(csv.column("gemm_type")) == "fp8_block") {
      out[{number("num_heads"), number("batch_size"), number("isl") + number("step") - 1}] =
          csv.number(csv.column("latency")) * 1e3;
    }
  }
  return out;
}

double price_of_decode(const std::string& node_name, int tp, std::int64_t sequences, std::int64_t tokens) {
  MoeSpec model = find_model("DeepSeek-R1");
  model.dtype = WeightType::kFp8;
  model.bytes_per_kv = 1;
  NodeEntry node = find_node(node_name);
  node.compute.use_kernels_of("trtllm");
  const ComputeModel compute(model, node.spec.gpu, {.gpus = 8, .attention_tp = tp}, node.compute);
  const Price whole = compute.attention(
      {.decode_tokens = sequences, .decode_context = static_cast<double>(sequences * tokens), .sampled = sequences});
  // The norms ahead of attention and of the FFN are not in the module: two kernels that move next to nothing here.
  return (whole.time.count() - 2 * node.compute.kernel_constant.value) * 1e6;
}

}  // namespace

TEST_CASE("the kernels of a decode's attention add up to the module") {
  for (const auto& [gpu, node] : {std::pair{"h200_sxm", "DGX-H200"}, {"b200_sxm", "p6-b200.48xlarge"}}) {
    const Modules modules = modules_of(gpu);
    for (const int tp : {1, 8}) {
      double logs = 0;
      int points = 0;
      for (const std::int64_t tokens : {1024, 8192}) {
        for (const std::int64_t sequences : {1, 4, 16, 32, 64, 128}) {
          const double here = price_of_decode(node, tp, sequences, tokens),
                       there = modules.at({128 / tp, sequences, tokens});
          CAPTURE(fmt::format("{} TP{}, {} x {} tokens: {:.1f} us, measured {:.1f}", node, tp, sequences, tokens, here,
                              there));
          CHECK(here / there == doctest::Approx(1).epsilon(0.15));
          logs += std::log(here / there);
          ++points;
        }
      }
      MESSAGE(fmt::format("{} TP{}: {:.3f} of the module, geometric mean", node, tp, std::exp(logs / points)));
      CHECK(std::exp(logs / points) == doctest::Approx(1).epsilon(0.08));
    }
  }
}
