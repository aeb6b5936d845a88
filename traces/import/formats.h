// The importers behind import_trace(), one file each; `recognises_...` as in TraceImporter.
#pragma once

#include <string_view>

#include "traces/import/import_options.h"

namespace epsim {

// SGLang's logical_count JSON: one load row per step. Layer rows that are all zero in the first step are dense layers.
bool recognises_sglang(const std::filesystem::path& file, std::string_view head);
void import_sglang(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// CSV with one line per layer and a column per expert (gpt-oss and OLMoE counts, HarMoEny): columns `layer` or
// `layer_idx`, e0.. or 0..; lines with equal other columns (dataset, iteration, ...) make one load row, labelled with
// them. A first column without a name is a running number and is left out.
bool recognises_wide_csv(const std::filesystem::path& file, std::string_view head);
void import_wide_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// CSV with one line per count: step, layer, expert, count, and optionally source; steps in ascending order, absent
// counts are 0.
bool recognises_long_csv(const std::filesystem::path& file, std::string_view head);
void import_long_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// CSV of routed tokens: e0.. (the choice of one token in one layer), with `token` and `layer` columns when there are
// several layers.
bool recognises_token_csv(const std::filesystem::path& file, std::string_view head);
void import_token_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// Raw bytes [token][layer][k], one expert id each; the shape from the options or from a name ending in _T<layers>x<k>.
bool recognises_token_binary(const std::filesystem::path& file, std::string_view head);
void import_token_binary(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// NumPy arrays of whole numbers [token][layer][k] or [token][k] (vLLM's routed experts), .npy or one array in an .npz.
bool recognises_numpy(const std::filesystem::path& file, std::string_view head);
void import_numpy(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

// TensorRT-LLM's expert statistics: a folder with meta_info.json and rank<r>.safetensors, tensors "<iteration>_<layer>"
// of counts by expert. `file` is the folder or its meta_info.json; ranks become sources.
bool recognises_trtllm(const std::filesystem::path& file, std::string_view head);
void import_trtllm(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);

}  // namespace epsim
