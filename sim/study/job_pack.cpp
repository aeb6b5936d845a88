#include "sim/study/job_pack.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "sim/core/fingerprint.h"

namespace epsim {
namespace {

constexpr std::string_view kHead = "epsim-pack 1 ";
constexpr std::size_t kMostHeader = 4096;  // bytes of a first line, or of the line before a result

// Reads up to `bytes`; fewer at the end of the file or where it cannot be read.
std::string bytes_at(int descriptor, std::uint64_t at, std::uint64_t bytes) {
  std::string out(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got = pread(descriptor, out.data() + have, bytes - have, static_cast<off_t>(at + have));
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
      break;
    }
    have += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  out.resize(have);
  return out;
}

std::string_view next_word(std::string_view& line) {
  const std::size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
  return word;
}

template <class Number>
bool parse(std::string_view word, Number& out, int base) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out, base);
  return error == std::errc() && end == word.data() + word.size();
}

// Of the line "job BYTES HASH LABEL KEY".
std::optional<PackedJob> parse_entry(std::string_view line) {
  PackedJob out;
  if (next_word(line) != "job" || !parse(next_word(line), out.bytes, 10) || !parse(next_word(line), out.hash, 16)) {
    return std::nullopt;
  }
  out.label = next_word(line);
  out.key = line;
  return out.key.empty() ? std::nullopt : std::optional(std::move(out));
}

// A part of the file that moves on with what is read, so that small results do not cost a system call each.
class Window {
 public:
  Window(int descriptor, std::uint64_t at) : descriptor_(descriptor), at_(at) {}
  // `bytes` from `at` on, or as many as there are.
  std::string_view view(std::uint64_t at, std::uint64_t bytes) {
    if (at < at_ || at + bytes > at_ + text_.size()) {
      constexpr std::uint64_t kPiece = std::uint64_t{1} << 18;
      text_ = bytes_at(descriptor_, at, std::max(bytes, kPiece));
      at_ = at;
    }
    return std::string_view(text_).substr(at - at_, bytes);
  }

 private:
  int descriptor_;
  std::uint64_t at_;
  std::string text_;
};

}  // namespace

std::uint64_t text_hash(std::string_view text) {
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(text.size()));
  std::uint64_t word = 0;
  for (; text.size() >= sizeof(word); text.remove_prefix(sizeof(word))) {
    std::memcpy(&word, text.data(), sizeof(word));
    hash.add(word);
  }
  word = 0;
  for (const char c : text) {
    word = word << 8U | static_cast<unsigned char>(c);
  }
  hash.add(word);
  return hash.value();
}

std::string pack_head(const std::string& writer) { return fmt::format("{}{}\n", kHead, writer); }

std::string pack_entry(const std::string& key, const std::string& label, std::string_view text) {
  return fmt::format("job {} {:016x} {} {}\n{}\n", text.size(), text_hash(text), label.empty() ? "-" : label, key,
                     text);
}

void scan_pack(int descriptor, PackScan& scan, bool skip_damaged, const std::function<void(PackedJob)>& found) {
  struct stat file {};
  const std::uint64_t size = fstat(descriptor, &file) == 0 ? static_cast<std::uint64_t>(file.st_size) : 0;
  Window window(descriptor, scan.end);
  while (!scan.ended) {
    std::string_view line = window.view(scan.end, kMostHeader);
    const std::size_t newline = line.find('\n');
    if (newline == std::string_view::npos) {
      return;  // the end, or a line that is still being written
    }
    line = line.substr(0, newline);
    if (scan.end == 0) {
      if (!line.starts_with(kHead)) {
        return;
      }
      scan.writer = line.substr(kHead.size());
      scan.end = newline + 1;
    } else if (line == "end") {
      scan.ended = true;
      scan.end += newline + 1;
    } else {
      std::optional<PackedJob> job = parse_entry(line);
      if (!job || job->bytes >= size) {
        return;
      }
      job->at = scan.end + newline + 1;
      const std::string_view text = window.view(job->at, job->bytes + 1);
      if (text.size() != job->bytes + 1) {
        return;
      }
      const bool whole = text.back() == '\n' && text_hash(text.substr(0, job->bytes)) == job->hash;
      if (!whole && !skip_damaged) {
        return;
      }
      scan.end = job->at + job->bytes + 1;
      if (whole) {
        ++scan.results;
        found(*std::move(job));
      }
    }
  }
}

std::optional<std::string> read_packed(int descriptor, const PackedJob& job) {
  std::string text = bytes_at(descriptor, job.at, job.bytes);
  return text.size() == job.bytes && text_hash(text) == job.hash ? std::optional(std::move(text)) : std::nullopt;
}

}  // namespace epsim
