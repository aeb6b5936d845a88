// Files of finished results. A pack only grows, and a kill in the middle of a write costs the last result alone:
//
//   epsim-pack 1 {"host": "node7", "pid": 4711, ...}     its writer; {} when it was merged from several
//   job BYTES HASH LABEL KEY                             then BYTES of text and a newline, for each result
//   end                                                  its writer is finished
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace epsim {

// A result in a pack: where its text is. `label` is a word of the study's own, which is known without reading the text.
struct PackedJob {
  std::string key, label;
  std::uint64_t at = 0, bytes = 0;
  std::uint64_t hash = 0;  // of the text
};

std::string pack_head(const std::string& writer);
std::string pack_entry(const std::string& key, const std::string& label, std::string_view text);
inline constexpr std::string_view kPackEnd = "end\n";

std::uint64_t text_hash(std::string_view text);

// How far a pack was read.
struct PackScan {
  std::string writer;         // JSON; empty until the first line was read
  std::uint64_t end = 0;      // bytes read
  bool ended = false;         // the writer has finished
  std::uint64_t results = 0;  // whole results
};

// Reads what the open file has beyond `scan.end`, and calls `found` with each whole result. Stops where a result is
// still being written or is damaged; with `skip_damaged` (no process writes it any more) goes on behind a damaged one.
void scan_pack(int descriptor, PackScan& scan, bool skip_damaged, const std::function<void(PackedJob)>& found);

// The text of a result in the open file. Nothing when it is not there, or damaged.
std::optional<std::string> read_packed(int descriptor, const PackedJob& job);

}  // namespace epsim
