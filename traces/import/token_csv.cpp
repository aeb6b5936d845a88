#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "traces/format/csv.h"
#include "traces/import/formats.h"
#include "traces/import/token_batch.h"

namespace epsim {

namespace {

constexpr std::int64_t kMaxPosition = std::numeric_limits<std::int32_t>::max();

// The layers of the first token, which all others must have, in the same order.
std::vector<int> first_layers(const std::filesystem::path& file) {
  ByteInput input(file);
  CsvReader rows(input);
  const auto layer = rows.find_column("layer"), token = rows.find_column("token");
  if (!layer || !token) {
    return {0};
  }
  std::vector<int> layers;
  std::string first;
  while (rows.next() && (layers.empty() || rows.text(*token) == first)) {
    first = rows.text(*token);
    const std::int64_t number = rows.integer(*layer);
    if (number < 0 || number >= 4096 || (!layers.empty() && number <= layers.back())) {
      rows.fail(*layer, "the layers of a token ascend, from 0 to 4095.");
    }
    layers.push_back(static_cast<int>(number));
  }
  if (layers.empty()) {
    input.fail("the file holds no tokens.");
  }
  return layers;
}

}  // namespace

bool recognises_token_csv(const std::filesystem::path&, std::string_view head) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  return line.starts_with("token,layer,e0") || line.starts_with("e0,") || line == "e0";
}

void import_token_csv(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  const std::vector<int> layers = first_layers(file);
  ByteInput input(file);
  CsvReader rows(input);
  const std::vector<std::size_t> choice = expert_columns(rows.header());
  if (choice.empty()) {
    input.fail("the header must end with the choice e0, e1, ...");
  }
  const TraceInfo info = imported_info(file, "token_csv", options, layers, 0, static_cast<int>(choice.size()));
  if (info.top_k != static_cast<int>(choice.size())) {
    input.fail(fmt::format("a line has {} experts, not {}.", choice.size(), info.top_k));
  }
  sink.begin(info, 1);
  TokenBatch batch(info, sink);
  const auto layer = rows.find_column("layer"), token = rows.find_column("token");
  std::size_t at = 0;
  std::int64_t tokens = 0;
  std::string current;
  while (rows.next()) {
    if (layer && token) {
      if (rows.integer(*layer) != layers[at] || (at > 0 && rows.text(*token) != current)) {
        rows.fail(*layer, fmt::format("layer {} of the same token is expected here.", layers[at]));
      }
      current = rows.text(*token);
    }
    for (const std::size_t c : choice) {
      if (const std::string wrong = batch.add(rows.integer(c)); !wrong.empty()) {
        rows.fail(c, wrong);
      }
    }
    at = (at + 1) % layers.size();
    if (at == 0) {
      if (tokens == kMaxPosition) {
        rows.fail(choice[0], "the file holds more than 2^31 tokens.");
      }
      batch.end_token(0, static_cast<std::int32_t>(tokens++));
    }
  }
  if (at != 0 || tokens == 0) {
    input.fail("the file ends within a token, or holds none.");
  }
  batch.flush();
}

}  // namespace epsim
