// The trace format on disk (FORMAT.md): a writer that appends, a reader that streams.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "traces/format/hdf5_file.h"
#include "traces/format/request_table.h"
#include "traces/format/trace.h"

namespace epsim {

inline constexpr std::int64_t kTraceFormatVersion = 1;

// Writes a trace under a temporary name; commit() gives it its own. Memory: some MiB, whatever the length.
class TraceFileWriter final : public TraceSink {
 public:
  explicit TraceFileWriter(const std::filesystem::path& file);

  // Throws InputError when `info` is impossible.
  void begin(const TraceInfo& info, int sources) override;
  // Counts must be finite and not negative. They are stored as 32-bit whole numbers, as 64-bit ones once a row needs
  // it at the start of the file, or as doubles when the first row holds fractions; later rows must fit (else
  // InputError).
  void loads(const LoadRow& row) override;
  void tokens(const TokenBlock& block) override;
  void table(const std::string& name, const Table& table) override;
  void requests(const RequestTable& requests);
  void commit();

 private:
  void flush_loads();

  std::string name_;
  AtomicFile whole_;
  Hdf5File file_;
  TraceInfo info_;
  int sources_ = 0;
  Hdf5Type count_type_ = Hdf5Type::kU32;
  std::vector<double> pending_;  // rows of counts, one chunk at most
  std::vector<std::int64_t> pending_tokens_;
  std::optional<Hdf5Dataset> counts_, row_tokens_, experts_, weights_, sequence_, position_;
};

class TraceFile {
 public:
  // Throws InputError: no such file, no trace, a newer format, impossible or contradicting shapes.
  explicit TraceFile(const std::filesystem::path& file);

  const std::string& name() const { return file_.name(); }
  const TraceInfo& info() const { return info_; }

  // Load rows; 0 when the file has none.
  std::int64_t load_rows() const { return counts_ ? static_cast<std::int64_t>(counts_->rows()) : 0; }
  int sources() const { return sources_; }
  std::size_t load_row_size() const;  // layers x sources x experts
  // Rows [first, first + count): counts [row][layer][source][expert], and tokens [row][source]. T is float or double.
  // Throws InputError on a damaged dataset, and on negative or non-finite counts.
  template <class T>
  void read_loads(std::int64_t first, std::int64_t count, std::span<T> counts, std::span<std::int64_t> tokens) const;

  // Tokens; 0 when the file has none.
  std::int64_t token_count() const { return experts_ ? static_cast<std::int64_t>(experts_->rows()) : 0; }
  struct Tokens {
    std::vector<std::uint16_t> experts;  // [token][layer][k]
    std::vector<float> weights;
    std::vector<std::int32_t> sequence, position;
    TokenBlock block() const { return {experts, weights, sequence, position}; }
  };
  // Throws InputError on a damaged dataset, expert ids out of range, and an expert that occurs twice in one choice.
  void read_tokens(std::int64_t first, std::int64_t count, Tokens& out) const;

  std::vector<std::string> tables() const;
  Table table(const std::string& name) const;
  bool has_requests() const;
  RequestTable requests() const;

  // Passes everything but the requests on.
  void copy_to(TraceSink& sink) const;

 private:
  void open_loads();
  void open_tokens();

  Hdf5File file_;
  TraceInfo info_;
  int sources_ = 0;
  std::optional<Hdf5Dataset> counts_, row_tokens_, experts_, weights_, sequence_, position_;
};

}  // namespace epsim
