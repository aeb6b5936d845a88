// The size of sparse attention's prices against SGLang 0.5.14's DeepSeek-V3.2 layers as measured on an H200 (NVIDIA
// AIConfigurator, commit 095f58a: bf16 cache, fp8 weights). Few kernels of it are fitted, so bars are wide: whole prompt
// layers within 40 %, what a longer context adds to a decode within 25 %.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/roofline.h"
#include "tests/support/paths.h"
#include "traces/format/csv.h"

using namespace epsim;

namespace {

// Milliseconds of one layer by (sequences, new tokens of each, tokens before them).
using TableKey = std::array<std::int64_t, 3>;

std::map<TableKey, double> measured(const std::string& file, std::int64_t tp, bool decode,
                                    const char* cache = "bfloat16") {
  ByteInput input(test::shared_dir() / "data/aiconfigurator/h200_sxm/sparse_attention/sglang/0.5.14" / file);
  CsvReader csv(input);
  std::map<TableKey, double> out;
  while (csv.next()) {
    const auto is = [&](const char* column, const char* value) { return csv.text(csv.column(column)) == value; };
    if (is("architecture", "DeepseekV32ForCausalLM") && is("kv_cache_dtype", cache) && is("gemm_type", "fp8_block") &&
        csv.integer(csv.column("tp_size")) == tp) {
      const std::int64_t isl = csv.integer(csv.column("isl")), step = csv.integer(csv.column("step"));
      const TableKey key = decode ? TableKey{csv.integer(csv.column("batch_size")), 1, isl + step}
                                  : TableKey{csv.integer(csv.column("batch_size")), isl, step};
      out[key] = csv.number(csv.column("latency"));
    }
  }
  return out;
}

double priced(int tp, const TableKey& key, bool decode, double bytes_per_kv = 2) {
  MoeSpec model = find_model("DeepSeek-V3.2");
  model.dtype = WeightType::kFp8;
  model.bytes_per_kv = bytes_per_kv;
  const NodeEntry node = find_node("DGX-H200");
  const ComputeModel c(model, node.spec.gpu, {.gpus = 8, .attention_tp = tp}, node.compute);
  const auto s = static_cast<double>(key[0]), n = static_cast<double>(key[1]), before = static_cast<double>(key[2]);
  const RankBatch batch = decode ? RankBatch{.decode_tokens = key[0], .decode_context = s * before, .sampled = key[0]}
                                 : RankBatch{.prefill_tokens = key[0] * key[1],
                                             .prefill_pairs = s * (n * before + n * (n + 1) / 2),
                                             .prefill_context = s * before,
                                             .sampled = key[0]};
  return c.attention(batch).time.count() * 1e3;
}

}  // namespace

TEST_CASE("DeepSeek-V3.2 on an H200: prompts") {
  for (const int tp : {1, 8}) {
    const std::map<TableKey, double> table = measured("dsa_context_module_perf.csv.gz", tp, false);
    for (const std::int64_t fresh : {4096, 8192}) {
      for (const std::int64_t before : {2048, 12288, 65536}) {
        const double here = priced(tp, {1, fresh, before}, false), there = table.at({1, fresh, before});
        MESSAGE(fmt::format("TP{}, {} tokens behind {}: {:.2f} ms, measured {:.2f}", tp, fresh, before, here, there));
        CHECK(here / there > 1 / 1.4);
        CHECK(here / there < 1.4);
      }
      const double here = priced(tp, {1, fresh, 65536}, false) - priced(tp, {1, fresh, 2048}, false);
      const double there = table.at({1, fresh, 65536}) - table.at({1, fresh, 2048});
      CHECK(here / there > 0.5);
      CHECK(here / there < 2);
    }
  }
}

TEST_CASE("DeepSeek-V3.2 on an H200: decodes") {
  for (const int tp : {1, 8}) {
    const std::map<TableKey, double> table = measured("dsa_generation_module_perf.csv.gz", tp, true);
    for (const TableKey& key : {TableKey{1, 1, 16385}, TableKey{1, 1, 65537}, TableKey{4, 1, 16385},
                                TableKey{16, 1, 16385}, TableKey{64, 1, 4097}}) {
      const TableKey shorter{key[0], 1, 1025};
      const double here = priced(tp, key, true) - priced(tp, shorter, true), there = table.at(key) - table.at(shorter);
      MESSAGE(fmt::format("TP{}, {} sequences, 1025 -> {}: {:.1f} us, measured {:.1f}", tp, key[0], key[2], here * 1e3,
                          there * 1e3));
      CHECK(here / there > 1 / 1.25);
      CHECK(here / there < 1.25);
    }
  }
}

// FlashMLA's sparse kernel on Hopper: 64 queries more with an fp8 cache take 64 x 2048 x 2 x 64 heads x (2 x 512 + 64) flops
// = 18.3 Tflop at 410 TF/s, 44.5 us, at 8 heads a GPU and, at all 128, twice that.
TEST_CASE("DeepSeek-V3.2 on an H200: decodes with an fp8 cache are bound by products") {
  for (const int tp : {1, 8}) {
    const std::map<TableKey, double> table = measured("dsa_generation_module_perf.csv.gz", tp, true, "fp8");
    const TableKey many{128, 1, 1025}, few{64, 1, 1025};
    const double here = priced(tp, many, true, 1) - priced(tp, few, true, 1), there = table.at(many) - table.at(few);
    MESSAGE(fmt::format("TP{}, 64 -> 128 sequences: {:.1f} us, measured {:.1f}", tp, here * 1e3, there * 1e3));
    CHECK(here / there > 1 / 1.25);
    CHECK(here / there < 1.25);
  }
}
