#include "calibration/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "calibration/row_counts.h"
#include "models/profile/op_shapes.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "traces/format/csv.h"

namespace epsim {
namespace {

// A public table that an operator of a machine is read from.
struct PublicTable {
  std::string_view collection;  // "aiconfigurator", "infersim", "cited"
  std::string_view machine;     // "a100"
  std::string_view op;          // the point table it becomes
  std::string_view path;        // below the collection's folder
  std::string_view dtype;       // rows of this dtype are taken; empty = all
  std::string_view kernel;      // rows of this kernel are taken; empty = all
};

// Kernels by the names that AIConfigurator's tables give them.
constexpr std::string_view kTriton = "sglang_fused_moe_triton", kCutlass = "moe_torch_flow_cutlass";
constexpr std::string_view kTrtllmGen = "sglang_flashinfer_trtllm_moe";  // TensorRT-LLM's cubins, in SGLang
constexpr std::string_view kMarlin = "sglang_marlin_moe";
// Kernels that are measured with their model's own router; what their names begin with.
constexpr std::string_view kChoosing[] = {"sglang_", "vllm_", "moe_torch_flow_min_latency"};
constexpr std::string_view kRemotesToExpert0 = "0.5.10";  // of SGLang's tables: first_rank_with_remotes()
constexpr RouterGroups kDeepSeekGroups{.groups = 8, .kept = 4};
constexpr int kDraws = 5;  // of a power law, in a collector's mean
// Experts of a rank up to which expert 0, with seven of eight rows, is no more uneven than the tables' power laws.
constexpr double kMostWithRemotes = 16;

// A table of AIConfigurator; without a kernel, of whichever its framework chooses.
constexpr PublicTable aic(std::string_view profile, std::string_view op, std::string_view path, std::string_view dtype,
                          std::string_view kernel = "") {
  return {"aiconfigurator", profile, op, path, dtype, kernel};
}
constexpr std::string_view kBf16 = "bfloat16", kFp8 = "fp8_block", kFp4 = "nvfp4", kInt4 = "int4_wo";
// With activations in bf16, and in mxfp8 as SGLang takes them for gpt-oss on Blackwell (SGLang:
// flashinfer_mxfp4_moe_precision "default").
constexpr std::string_view kMxfp4 = "w4a16_mxfp4", kMxfp4Mxfp8 = "w4a8_mxfp4_mxfp8";

// A profile for each machine and engine, of its newest tables. What an engine's tables lack, its runs take from another
// engine's profile (models/hardware/compute). SGLang's prompts of MLA on Hopper are measured in the absorbed form, which
// it does not take for them: they are left out. So are TensorRT-LLM's bf16 experts and decodes of GQA, where the same row
// measured again differs by up to 6 times, and SGLang's fp8 products on Blackwell, whose collector gives DeepGEMM weight
// scales in float32 (collector/sglang/collect_gemm.py): it converts them in every call, 10 us more than in TensorRT-LLM's
// table of the same kernel, where SGLang converts them once, when it loads. Experts in mxfp4: on Hopper all three engines run
// OpenAI's triton_kernels for gpt-oss (SGLang's server_args.py with ep_size 1, TensorRT-LLM's resolve_moe_backend), which
// vLLM's table measures; SGLang's is of weights turned into bf16, three times as long, and TensorRT-LLM's of CUTLASS. On
// Blackwell TensorRT-LLM's are the cubins of SGLang's table, within 5 % for gpt-oss on one GPU; its own rows differ by 2
// between neighbours. Of TensorRT-LLM 1.2 (-1.2; Parquet files, to be written as CSV first) what differs from 1.3: fp8 on
// Blackwell, where DeepGEMM's products take up to twice as long, and decodes of MLA on Hopper.
constexpr PublicTable kTables[] = {
    aic("a100", "grouped_gemm", "a100_sxm/moe/sglang/0.5.10/moe_perf.csv.gz", kBf16, kTriton),
    aic("a100", "grouped_gemm_int4", "a100_sxm/moe/sglang/0.5.10/moe_perf.csv.gz", kInt4, kMarlin),
    aic("a100", "dense_gemm", "a100_sxm/gemm/sglang/0.5.10/gemm_perf.csv.gz", kBf16),
    aic("a100", "mla_prefill", "a100_sxm/mla/trtllm/1.0.0/context_mla_perf.csv.gz", kBf16),
    aic("a100", "mla_decode", "a100_sxm/mla/trtllm/1.0.0/generation_mla_perf.csv.gz", kBf16),
    aic("a100", "gqa_prefill", "a100_sxm/attention/sglang/0.5.10/context_attention_perf.csv.gz", kBf16),
    aic("a100", "gqa_decode", "a100_sxm/attention/sglang/0.5.10/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "grouped_gemm", "h100_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kBf16, kTriton),
    aic("h100-sglang", "grouped_gemm_fp8", "h100_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kFp8, kTriton),
    aic("h100-sglang", "grouped_gemm_int4", "h100_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kInt4, kMarlin),
    aic("h100-sglang", "dense_gemm", "h100_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kBf16),
    aic("h100-sglang", "dense_gemm_fp8", "h100_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kFp8),
    aic("h100-sglang", "mla_decode", "h100_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_prefill", "h100_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_prefill_64", "h100_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_prefill_256", "h100_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode_fp8", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode_64", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode_64_fp8", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode_256", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h100-sglang", "gqa_decode_256_fp8", "h100_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz",
        kBf16),
    aic("h100-trtllm", "grouped_gemm_fp8", "h100_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, kCutlass),
    aic("h100-trtllm", "dense_gemm", "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kBf16),
    aic("h100-trtllm", "dense_gemm_fp8", "h100_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kFp8),
    aic("h100-trtllm", "mla_prefill", "h100_sxm/mla/trtllm/1.3.0rc20/context_mla_perf.csv.gz", kBf16),
    aic("h100-trtllm", "mla_decode", "h100_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("h100-trtllm", "mla_decode_fp8", "h100_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("h100-trtllm", "gqa_prefill", "h100_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h100-trtllm", "gqa_prefill_64", "h100_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h100-trtllm", "gqa_prefill_256", "h100_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h100-deepep", "grouped_gemm_fp8", "h100_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, kCutlass),
    aic("h100-vllm", "grouped_gemm", "h100_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kBf16,
        "vllm_unquantizedfusedmoe_triton_tritonexperts"),
    aic("h100-vllm", "grouped_gemm_fp8", "h100_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kFp8,
        "vllm_fp8moe_triton_tritonexperts"),
    aic("h100-vllm", "grouped_gemm_mxfp4", "h100_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kMxfp4,
        "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic"),
    aic("h100-vllm", "grouped_gemm_int4", "h100_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kInt4,
        "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts"),
    aic("h200-sglang", "grouped_gemm", "h200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kBf16, kTriton),
    aic("h200-sglang", "grouped_gemm_fp8", "h200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kFp8, kTriton),
    aic("h200-sglang", "grouped_gemm_int4", "h200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kInt4, kMarlin),
    aic("h200-sglang", "dense_gemm", "h200_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kBf16),
    aic("h200-sglang", "dense_gemm_fp8", "h200_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kFp8),
    aic("h200-sglang", "mla_decode", "h200_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_prefill", "h200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_prefill_64", "h200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_prefill_256", "h200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode_fp8", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode_64", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode_64_fp8", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode_256", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16),
    aic("h200-sglang", "gqa_decode_256_fp8", "h200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz",
        kBf16),
    aic("h200-trtllm", "grouped_gemm_fp8", "h200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, kCutlass),
    aic("h200-trtllm", "dense_gemm", "h200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kBf16),
    aic("h200-trtllm", "dense_gemm_fp8", "h200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kFp8),
    aic("h200-trtllm", "mla_prefill", "h200_sxm/mla/trtllm/1.3.0rc20/context_mla_perf.csv.gz", kBf16),
    aic("h200-trtllm", "mla_decode", "h200_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("h200-trtllm", "mla_decode_fp8", "h200_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("h200-trtllm", "gqa_prefill", "h200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h200-trtllm", "gqa_prefill_64", "h200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h200-trtllm", "gqa_prefill_256", "h200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16),
    aic("h200-trtllm-1.2", "mla_decode", "h200_sxm/mla/trtllm/1.2.0rc5/generation_mla_perf.csv.gz", kBf16),
    aic("h200-trtllm-1.2", "mla_decode_fp8", "h200_sxm/mla/trtllm/1.2.0rc5/generation_mla_perf.csv.gz", kBf16),
    aic("h200-deepep", "grouped_gemm_fp8", "h200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, kCutlass),
    aic("h200-vllm", "grouped_gemm", "h200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kBf16,
        "vllm_unquantizedfusedmoe_triton_tritonexperts"),
    aic("h200-vllm", "grouped_gemm_fp8", "h200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kFp8,
        "vllm_fp8moe_triton_tritonexperts"),
    aic("h200-vllm", "grouped_gemm_mxfp4", "h200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kMxfp4,
        "vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic"),
    aic("h200-vllm", "grouped_gemm_int4", "h200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kInt4,
        "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts"),
    aic("b200-sglang", "grouped_gemm", "b200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kBf16, kTrtllmGen),
    aic("b200-sglang", "grouped_gemm_fp8", "b200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kFp8, kTrtllmGen),
    aic("b200-sglang", "grouped_gemm_fp4", "b200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kFp4, kTrtllmGen),
    aic("b200-sglang", "grouped_gemm_mxfp4", "b200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kMxfp4Mxfp8, kTrtllmGen),
    aic("b200-sglang", "grouped_gemm_int4", "b200_sxm/moe/sglang/0.5.14/moe_perf.csv.gz", kInt4, kTrtllmGen),
    aic("b200-sglang", "dense_gemm", "b200_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kBf16),
    aic("b200-sglang", "dense_gemm_fp4", "b200_sxm/gemm/sglang/0.5.14/gemm_perf.csv.gz", kFp4),
    aic("b200-sglang", "mla_prefill", "b200_sxm/mla/sglang/0.5.14/context_mla_perf.csv.gz", kBf16),
    aic("b200-sglang", "mla_decode", "b200_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz", kBf16),
    aic("b200-sglang", "mla_decode_fp8", "b200_sxm/mla/sglang/0.5.14/generation_mla_perf.csv.gz", kBf16),
    aic("b200-sglang", "gqa_prefill", "b200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_prefill_64", "b200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_prefill_256", "b200_sxm/attention/sglang/0.5.14/context_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode_fp8", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode_64", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode_64_fp8", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode_256", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-sglang", "gqa_decode_256_fp8", "b200_sxm/attention/sglang/0.5.14/generation_attention_perf.csv.gz", kBf16,
        "trtllm_mha"),
    aic("b200-trtllm", "grouped_gemm_fp8", "b200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, "deepgemm"),
    aic("b200-trtllm", "grouped_gemm_fp4", "b200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp4,
        "moe_torch_flow_min_latency"),
    aic("b200-trtllm", "dense_gemm", "b200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kBf16),
    aic("b200-trtllm", "dense_gemm_fp8", "b200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kFp8),
    aic("b200-trtllm", "dense_gemm_fp4", "b200_sxm/gemm/trtllm/1.3.0rc20/gemm_perf.csv.gz", kFp4),
    aic("b200-trtllm", "mla_prefill", "b200_sxm/mla/trtllm/1.3.0rc20/context_mla_perf.csv.gz", kBf16),
    aic("b200-trtllm", "mla_decode", "b200_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("b200-trtllm", "mla_decode_fp8", "b200_sxm/mla/trtllm/1.3.0rc20/generation_mla_perf.csv.gz", kBf16),
    aic("b200-trtllm", "gqa_prefill", "b200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16,
        "torch_flow"),
    aic("b200-trtllm", "gqa_prefill_64", "b200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16,
        "torch_flow"),
    aic("b200-trtllm", "gqa_prefill_256", "b200_sxm/attention/trtllm/1.3.0rc20/context_attention_perf.csv.gz", kBf16,
        "torch_flow"),
    aic("b200-trtllm-1.2", "grouped_gemm_fp8", "b200_sxm/moe/trtllm/1.2.0rc5/moe_perf.csv.gz", kFp8, "deepgemm"),
    aic("b200-trtllm-1.2", "dense_gemm_fp8", "b200_sxm/gemm/trtllm/1.2.0rc5/gemm_perf.csv.gz", kFp8),
    aic("b200-deepep", "grouped_gemm_fp8", "b200_sxm/moe/trtllm/1.3.0rc20/moe_perf.csv.gz", kFp8, "deepgemm"),
    aic("b200-vllm", "grouped_gemm", "b200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kBf16,
        "vllm_unquantizedfusedmoe_flashinfer_trtllm_trtllmbf16experts"),
    aic("b200-vllm", "grouped_gemm_fp8", "b200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kFp8,
        "vllm_fp8moe_flashinfer_trtllm_trtllmfp8expertsmonolithic"),
    aic("b200-vllm", "grouped_gemm_fp4", "b200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kFp4,
        "vllm_compressedtensorsw4a4nvfp4moe_flashinfer_trtllm_trtllmnvfp4expertsmonolithic"),
    aic("b200-vllm", "grouped_gemm_mxfp4", "b200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kMxfp4,
        "vllm_gptossmxfp4moe_flashinfer_trtllm_mxfp4_bf16_trtllmmxfp4expertsmonolithic"),
    aic("b200-vllm", "grouped_gemm_int4", "b200_sxm/moe/vllm/0.24.0/moe_perf.csv.gz", kInt4,
        "vllm_compressedtensorswna16marlinmoe_marlin_marlinexperts"),
    {"cited", "b200-flashinfer", "dense_gemm_fp8", "flashinfer_trtllm_fp8_gemm.csv", "", "flashinfer_trtllm_groupwise"},
    {"infersim", "h20", "grouped_gemm_fp8", "grouped_gemm/decode/h20/data.csv;grouped_gemm/prefill/h20/data.csv", "",
     ""},
    {"infersim", "h20", "dense_gemm_fp8", "gemm/h20/data.csv", "", ""},
    {"infersim", "h20", "mla_decode", "mla/decode/h20/128-512-64.csv", "bf16", ""},
    {"infersim", "h800", "grouped_gemm_fp8", "grouped_gemm/decode/h800/data.csv;grouped_gemm/prefill/h800/data.csv", "",
     ""},
    {"infersim", "h800", "dense_gemm_fp8", "gemm/h800/data.csv", "", ""},
    {"infersim", "h800", "mla_prefill", "mla/prefill/h800/128-128-64.csv", "bf16", ""},
    {"infersim", "h800", "mla_decode", "mla/decode/h800/128-512-64.csv", "bf16", ""},
};

constexpr std::string_view kAiconfiguratorCommit = "github.com/ai-dynamo/aiconfigurator at 095f58a, systems/data";
constexpr std::string_view kInfersimCommit = "github.com/alibaba/InferSim at f2293da, bench_data";
constexpr std::string_view kCited = "calibration/cited, which names the source of each row";

std::string_view source_of(std::string_view collection) {
  return collection == "aiconfigurator" ? kAiconfiguratorCommit : collection == "infersim" ? kInfersimCommit : kCited;
}

// Reads one CSV file into a table; each row gives at most one point.
class Importer {
 public:
  Importer(const PublicTable& table, const std::filesystem::path& file, PointTable& out)
      : table_(table), input_(file), csv_(input_), out_(out) {}

  void run() {
    while (csv_.next()) {
      if ((table_.dtype.empty() || csv_.text(dtype_column()) == table_.dtype) &&
          (table_.kernel.empty() || is("kernel_source", table_.kernel))) {
        row();
      }
    }
  }
  const std::string& gpu() const { return gpu_; }

 private:
  double number(std::string_view column) const { return csv_.number(csv_.column(column)); }
  double number_or(std::string_view column, double fallback) const {
    const auto found = csv_.find_column(column);
    return found ? csv_.number(*found) : fallback;
  }
  bool is(std::string_view column, std::string_view text) const { return csv_.text(csv_.column(column)) == text; }

  std::size_t dtype_column() const {
    for (const char* name : {"moe_dtype", "gemm_dtype", "mla_dtype", "attn_dtype", "dtype"}) {
      if (const auto found = csv_.find_column(name)) {
        return *found;
      }
    }
    return csv_.column("dtype");
  }

  void row() {
    if (table_.collection != "infersim") {
      gpu_ = csv_.text(csv_.column("device"));
    }
    switch (find_op_info(table_.op)->kind) {
      case OpKind::kGroupedGemm:
        return table_.collection == "infersim" ? infersim_grouped() : grouped();
      case OpKind::kDenseGemm:
        return dense();
      case OpKind::kMlaPrefill:
      case OpKind::kMlaDecode:
        return mla();
      case OpKind::kGqaPrefill:
      case OpKind::kGqaDecode:
        return gqa();
      default:
        EPSIM_CHECK(false, "no public table has this operator");
    }
  }

  double seconds() const {
    return table_.collection == "infersim" ? number("latency_us") * 1e-6 : number("latency") * 1e-3;
  }

  // Cited rows time the product alone, where tables' kernels write their input in fp8 first: read in bf16 and written, by
  // AIConfigurator's constant and share of the bandwidth for such kernels (b200_sxm.yaml).
  static double quantised(double elements) { return 3e-6 + elements * 3 / (0.8 * 7700e9); }

  // A layer's matrices have no side below 256; the tables' narrower ones are left out.
  void dense() {
    const double m = number("m"), n = number("n"), k = number("k");
    if (std::min(n, k) >= 256) {
      out_.add(std::array{m, n, k}, seconds() + (table_.collection == "cited" ? quantised(m * k) : 0));
    }
  }

  // Whether the model's own router chooses the experts; such collectors mask remote experts, whose rows still cost time.
  bool chosen_by_router() const {
    return std::any_of(std::begin(kChoosing), std::end(kChoosing),
                       [&](std::string_view name) { return table_.kernel.starts_with(name); });
  }

  // What of its rows a kernel's price takes; of a power law the mean of several draws.
  GroupRows rows_of(const RoutingShape& shape, std::string_view distribution) const {
    const bool grouped = chosen_by_router() && shape.experts == 256 && number("hidden_size") == 7168 &&
                         !is("version", kRemotesToExpert0);
    const RouterGroups router = grouped ? kDeepSeekGroups : RouterGroups{};
    if (distribution == "balanced") {
      std::vector<std::int64_t> rows = balanced_rows(shape, router);
      rows.resize(static_cast<std::size_t>(shape.experts / shape.ranks));  // rank 0
      return summarise_rows(rows);
    }
    const double alpha = *parse_number(distribution.substr(std::string_view("power_law_").size()));
    if (!grouped) {
      return summarise_rows(power_law_quantiles(shape, alpha));
    }
    RandomStream order(Seed{1}, "router groups", static_cast<std::uint64_t>(shape.tokens));
    GroupRows mean;
    for (int draw = 0; draw < kDraws; ++draw) {
      const GroupRows one = summarise_rows(power_law_rows(shape, alpha, router, order));
      mean.rows += one.rows / kDraws;
      mean.groups += one.groups / kDraws;
      mean.rows_max += one.rows_max / kDraws;
    }
    return mean;
  }

  void grouped() {
    const double tokens = number("num_tokens"), hidden = number("hidden_size");
    const int ranks = static_cast<int>(number("moe_ep_size"));
    const std::string_view distribution = csv_.text(csv_.column("distribution"));
    const bool balanced = distribution == "balanced", whole = number("moe_tp_size") == 1;
    const bool a100 = table_.machine == "a100";
    const bool whole_alone = a100 || table_.machine.ends_with("-deepep");
    const bool remotes_first = a100 && balanced && number("num_experts") <= kMostWithRemotes * ranks;
    // Nemotron's experts have no gate projection, and its 22 choices go through a latent.
    const bool gated = number("topk") != 22 && hidden != 2688;
    // With expert parallelism a power law's busiest rank is a draw. Behind DeepEP no expert is split: those profiles, and
    // the A100's, know whole experts alone.
    if (!gated || (whole_alone && !whole) || (ranks > 1 && !balanced) ||
        (!remotes_first && ranks > 1 && chosen_by_router())) {
      return;
    }
    const RoutingShape shape{static_cast<std::int64_t>(tokens), static_cast<int>(number("num_experts")),
                             static_cast<int>(number("topk")), ranks};
    const GroupRows sum = remotes_first ? summarise_rows(first_rank_with_remotes(shape)) : rows_of(shape, distribution);
    if (sum.rows > 0) {
      const double width = number("inter_size") / number("moe_tp_size");
      out_.add(std::array{sum.rows, sum.groups, sum.rows_max, hidden, width, tokens}, seconds());
    }
  }

  void infersim_grouped() {
    const double groups = number("num_local_experts"), each = number("tokens_per_expert");
    // Up to three rows an expert the files cannot say how many experts got one.
    if (each < 4) {
      return;
    }
    // The files round tokens per expert down; what a kernel works on is the tokens of all GPUs over all experts.
    const double batch = number_or("batch_size_per_gpu", 0) + number_or("seq_len_per_gpu", 0);
    const double exact = batch * number("num_gpus") * number("topk") / number("num_experts");
    const double rows = std::max({1.0, each, exact});
    out_.add(std::array{rows * groups, groups, std::ceil(rows), number("hidden_size"), number("intermediate_size"),
                        rows * groups},
             (number("up_proj_us") + number("down_proj_us")) * 1e-6);
  }

  const char* cache() const { return table_.op.ends_with("_fp8") ? "fp8" : "bfloat16"; }

  void mla() {
    if (table_.collection == "infersim") {
      const bool prefill = table_.op == "mla_prefill";
      if (prefill || is("kv_dtype", "bf16")) {
        out_.add(
            std::array{prefill ? 1.0 : number("batch_size"), prefill ? number("seq_len") : number("kv_len"), 128.0},
            seconds());
      }
      return;
    }
    if (!is("kv_cache_dtype", cache())) {
      return;
    }
    const double length = table_.op == "mla_prefill" ? number("isl") : number("isl") + number("step");
    out_.add(std::array{number("batch_size"), length, number("num_heads")}, seconds());
  }

  void gqa() {
    const double width = table_.op.find("_64") != table_.op.npos    ? 64
                         : table_.op.find("_256") != table_.op.npos ? 256
                                                                    : 128;
    if (!is("kv_cache_dtype", cache()) || number("head_dim") != width || number_or("window_size", 0) != 0) {
      return;
    }
    const double length = number("isl") + (table_.op.starts_with("gqa_decode") ? number("step") : 0);
    out_.add(std::array{number("batch_size"), length, number("num_heads"), number("num_key_value_heads"), width},
             seconds());
  }

  const PublicTable& table_;
  ByteInput input_;
  CsvReader csv_;
  PointTable& out_;
  std::string gpu_;
};

std::vector<std::filesystem::path> files_of(const PublicTable& table, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  for (std::size_t at = 0; at <= table.path.size();) {
    const std::size_t end = std::min(table.path.find(';', at), table.path.size());
    out.push_back(folder / table.path.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

PointTable empty_table(const PublicTable& table) {
  PointTable out;
  out.op = table.op;
  for (const std::string_view name : find_op_info(table.op)->parameters) {
    if (!name.empty()) {
      out.columns.emplace_back(name);
    }
  }
  out.values.resize(out.columns.size());
  out.attributes["dtype"] = std::string(dtype_of(table.op).name);
  out.attributes["kernel"] = table.kernel.empty() ? "as the table's framework chooses" : std::string(table.kernel);
  out.attributes["table"] = std::string(table.path);
  return out;
}

}  // namespace

std::vector<std::string> public_collections() {
  std::vector<std::string> out;
  for (const PublicTable& table : kTables) {
    if (std::find(out.begin(), out.end(), table.collection) == out.end()) {
      out.emplace_back(table.collection);
    }
  }
  return out;
}

std::vector<std::string> public_machines(const std::string& collection) {
  std::vector<std::string> out;
  for (const PublicTable& table : kTables) {
    if (table.collection == collection && std::find(out.begin(), out.end(), table.machine) == out.end()) {
      out.emplace_back(table.machine);
    }
  }
  return out;
}

PointFile import_public(const std::string& collection, const std::string& machine, const std::filesystem::path& folder,
                        const std::string& only) {
  const std::vector<std::string> collections = public_collections(), machines = public_machines(collection);
  if (machines.empty()) {
    throw InputError({}, unknown_name("collection of public measurements", collection, collections));
  }
  if (std::find(machines.begin(), machines.end(), machine) == machines.end()) {
    throw InputError({}, unknown_name("machine of " + collection, machine, machines));
  }
  PointFile out;
  out.provenance.machine = machine;
  out.provenance.source = source_of(collection);
  out.provenance.licence = "Apache-2.0";
  out.provenance.notes = "imported, not measured by this project";
  out.provenance.gpu = machine;
  for (const PublicTable& table : kTables) {
    if (table.collection != collection || table.machine != machine || (!only.empty() && table.op != only)) {
      continue;
    }
    PointTable points = empty_table(table);
    for (const std::filesystem::path& file : files_of(table, folder)) {
      Importer importer(table, file, points);
      importer.run();
      if (!importer.gpu().empty()) {
        out.provenance.gpu = importer.gpu();
      }
    }
    out.tables.push_back(std::move(points));
  }
  validate_points(out, folder.string());
  return out;
}

}  // namespace epsim
