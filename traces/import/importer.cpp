#include "traces/import/importer.h"

#include <fmt/format.h>

#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/format/text_input.h"
#include "traces/import/formats.h"

namespace epsim {

namespace {

constexpr TraceImporter kImporters[] = {
    {"trtllm", "TensorRT-LLM expert statistics (meta_info.json and rank*.safetensors)", recognises_trtllm,
     import_trtllm},
    {"numpy", "NumPy array of expert ids [token][layer][k], .npy or .npz (vLLM routed experts)", recognises_numpy,
     import_numpy},
    {"sglang", "SGLang logical_count JSON, summed or by step", recognises_sglang, import_sglang},
    {"long_csv", "CSV of counts, one a line: step,layer,expert,count", recognises_long_csv, import_long_csv},
    {"token_csv", "CSV of expert ids, one line per token and layer", recognises_token_csv, import_token_csv},
    {"wide_csv", "CSV of counts, one line per layer, a column per expert", recognises_wide_csv, import_wide_csv},
    {"token_binary", "raw bytes of expert ids [token][layer][k], with sequences.csv", recognises_token_binary,
     import_token_binary}};

constexpr std::size_t kHeadBytes = 4096;

std::string head_of(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) {
    return "";
  }
  ByteInput input(file);
  std::string head(kHeadBytes, '\0');
  head.resize(input.read(head.data(), head.size()));
  return head.starts_with("\xEF\xBB\xBF") ? head.substr(3) : head;  // a byte order mark; LineReader skips it too
}

// A zip archive of a pickle, as torch.save writes it.
void refuse_torch(const std::filesystem::path& file, std::string_view head) {
  refuse_if(head.starts_with("PK\x03\x04") && head.find("data.pkl") != std::string_view::npos, {file.string(), 0, ""},
            "this is a PyTorch file, which can hold programs. For a dump of SGLang's recorder run `python3 "
            "traces/import/sglang_recording.py` on it where PyTorch is installed, and import what it writes.");
}

const TraceImporter& chosen(const std::filesystem::path& file, const std::string& format) {
  std::vector<std::string> names{"auto"};
  const std::string head = head_of(file);
  refuse_torch(file, head);
  for (const TraceImporter& importer : kImporters) {
    if (importer.name == format || (format == "auto" && importer.recognises(file, head))) {
      return importer;
    }
    names.emplace_back(importer.name);
  }
  refuse_if(format != "auto", {file.string(), 0, "format"}, unknown_name("format", format, names));
  refuse_if(std::filesystem::is_directory(file), {file.string(), 0, ""},
            "this is a folder, not a file; the only folders read are TensorRT-LLM's, with a meta_info.json.");
  throw InputError(
      {file.string(), 0, "format"},
      fmt::format(
          "no reader recognises this file as loads of experts. If it is one of these, name its format: {}. A trace of "
          "requests is read by a scenario: `requests: {{kind: azure_csv, path: FILE}}`, or "
          "mooncake_jsonl.",
          fmt::join(names.begin() + 1, names.end(), ", ")));
}

}  // namespace

std::span<const TraceImporter> trace_importers() { return kImporters; }

void import_trace(const std::filesystem::path& file, const std::string& format, const ImportOptions& options,
                  TraceSink& sink) {
  refuse_if(!std::filesystem::exists(file), {file.string(), 0, ""}, "there is no such file.");
  const TraceImporter& importer = chosen(file, format);
  refuse_if(!options.sequences.empty() && importer.name != "numpy" && importer.name != "token_binary",
            {file.string(), 0, "sequences"},
            fmt::format("{} takes no table of sequences; numpy and token_binary do.", importer.name));
  importer.run(file, options, sink);
}

}  // namespace epsim
