#include "traces/requests/detect.h"

#include "sim/core/refuse.h"
#include "traces/format/text_input.h"

namespace epsim {

namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string_view first_line(std::string_view head) {
  head.remove_prefix(head.starts_with("\xEF\xBB\xBF") ? 3 : 0);
  head = head.substr(0, head.find('\n'));
  head.remove_suffix(head.ends_with('\r') ? 1 : 0);
  return head;
}

}  // namespace

std::string kind_of_bytes(std::string_view head) {
  if (head.starts_with("\x89HDF\r\n\x1a\n")) {  // the HDF5 signature
    return "trace_file";
  }
  if (head.size() > 262 && head.substr(257, 5) == "ustar") {  // the magic of a tar header
    return "servegen";
  }
  const std::string_view line = first_line(head);
  if (line.starts_with('{')) {
    return holds(line, "\"hash_ids\"") || holds(line, "\"input_length\"") ? "mooncake_jsonl" : "benchmark_jsonl";
  }
  if (holds(line, "TIMESTAMP") && holds(line, "ContextTokens") && holds(line, "GeneratedTokens")) {
    return "azure_csv";
  }
  if (holds(line, "Timestamp") && holds(line, "Request tokens") && holds(line, "Response tokens")) {
    return "burstgpt_csv";
  }
  return "";
}

std::string detect_request_kind(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    return "servegen";
  }
  ByteInput input(path);
  std::string head(std::size_t{1} << 16, '\0');
  head.resize(input.read(head.data(), head.size()));
  std::string kind = kind_of_bytes(head);
  refuse_if(kind.empty(), {path.string(), 0, ""},
            "the kind of this request trace cannot be detected from its first bytes. State its kind; a table takes "
            "kind: csv with arrival_column, input_column and output_column.");
  return kind;
}

}  // namespace epsim
