#include "sim/verbs/sweep_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/fingerprint.h"
#include "sim/core/refuse.h"
#include "sim/study/store_json.h"

namespace epsim {

constexpr int kPointFormat = 3;  // of a point's file

EPSIM_STORED(InputFile, name, bytes, hash);
EPSIM_STORED(ResultColumn, name, text);
EPSIM_STORED(ResultTable, name, columns, rows);
EPSIM_STORED(SweepPoint, index, error, inputs, tables);

std::optional<SweepPoint> stored_point(const std::string& text) { return read_stored<SweepPoint>(text, kPointFormat); }

std::string stored_text(const SweepPoint& point) { return store_text(kPointFormat, point); }

std::string label_of(const SweepPoint& point) {
  Fingerprint hash;
  for (const InputFile& file : point.inputs) {
    hash.add(std::string_view(file.name));
    hash.add(std::string_view(file.hash));
  }
  for (const ResultTable& table : point.tables) {
    hash.add(std::string_view(table.name));
    for (const ResultColumn& column : table.columns) {
      hash.add(std::string_view(column.name));
      hash.add(static_cast<std::uint64_t>(column.text));
    }
  }
  return fmt::format("{}-{}", point.error.empty() ? "ok" : kFailedLabel, hash.hex());
}

void UnchangedInputs::check(const SweepPoint& point) {
  for (const InputFile& input : point.inputs) {
    auto known = std::ranges::find(seen_, input.name, &InputFile::name);
    if (known == seen_.end()) {
      seen_.push_back(describe_file(input.name));
      known = seen_.end() - 1;
    }
    refuse_if(known->hash != input.hash, {input.name, 0, ""},
              fmt::format("the file has changed since point {} of this sweep read it. Name "
                          "another folder, or add --overwrite to start over.",
                          point.index));
  }
}

}  // namespace epsim
