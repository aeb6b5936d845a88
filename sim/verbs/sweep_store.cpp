#include "sim/verbs/sweep_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/fingerprint.h"
#include "sim/core/refuse.h"
#include "sim/study/store_json.h"

namespace epsim {

constexpr int kPointFormat = 3;  // of a point's file

template <Is<InputFile> T>
auto members(T& x) {
  auto& [name, bytes, hash] = x;
  return std::tie(name, bytes, hash);
}
template <Is<ResultColumn> T>
auto members(T& x) {
  auto& [name, text] = x;
  return std::tie(name, text);
}
template <Is<ResultTable> T>
auto members(T& x) {
  auto& [name, columns, rows] = x;
  return std::tie(name, columns, rows);
}
template <Is<SweepPoint> T>
auto members(T& x) {
  auto& [index, error, inputs, tables] = x;
  return std::tie(index, error, inputs, tables);
}

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
