// ServeGen's files: rates, lengths, folders and archives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "traces/format/archive_reader.h"
#include "traces/format/csv.h"
#include "traces/requests/json_records.h"
#include "traces/requests/servegen.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

constexpr double kMaxStart = 1e9;               // 30 years; a window's start beyond it is damage
constexpr std::size_t kMaxLengths = 1u << 26;   // entries of all distributions together: 0.8 GB
constexpr std::int64_t kMaxArchived = 1 << 27;  // bytes of one file in an archive, which is held in memory

// chunk-12-trace.csv: 12 and whether it is the rate file. Nothing for other names. A .gz at the end is allowed.
struct ChunkName {
  std::int64_t number;
  bool is_trace;
};
std::optional<ChunkName> parse_name(std::string_view name) {
  name.remove_prefix(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1);
  if (name.ends_with(".gz")) {
    name.remove_suffix(3);
  }
  const bool is_trace = name.ends_with("-trace.csv");
  const std::string_view ending = is_trace ? "-trace.csv" : "-dataset.json";
  if (!name.starts_with("chunk-") || !name.ends_with(ending) || name.size() <= 6 + ending.size()) {
    return std::nullopt;
  }
  const auto number = parse_integer(name.substr(6, name.size() - 6 - ending.size()));
  return number && *number >= 0 ? std::optional(ChunkName{*number, is_trace}) : std::nullopt;
}

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    out.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

GapRule read_gap_rule(const LineReader& lines, std::string_view family, std::string_view shape) {
  GapRule rule;
  if (family.empty()) {
    return rule;
  }
  if (family != "Gamma" && family != "Weibull") {
    throw InputError(lines.place("family"), "the family of gaps is Gamma, Weibull or nothing (exponential).");
  }
  rule.family = family == "Gamma" ? GapRule::Family::kGamma : GapRule::Family::kWeibull;
  const std::optional<double> value = parse_number(shape);
  // The smallest shapes still give finite moments in double precision: a coefficient of variation of 30 for a gamma.
  const double smallest = family == "Gamma" ? 1e-3 : 0.05;
  if (!value || *value < smallest || *value > 1e6) {
    throw InputError(lines.place("shape"), fmt::format("the shape must be a number within {} and 1e6.", smallest));
  }
  rule.shape = *value;
  return rule;
}

// "{294: 0.0106, 299: 0.0106}", a Python dictionary of token counts and probabilities.
class DistributionParser {
 public:
  DistributionParser(std::string_view text, InputPlace place) : left_(text), place_(std::move(place)) {}

  TokenDistribution parse() {
    TokenDistribution out;
    double sum = 0.0;
    expect('{');
    while (!skip_blanks().starts_with('}')) {
      const double tokens = number(':');
      if (tokens != std::floor(tokens) || tokens < 0 || tokens > 2147483647.0) {
        fail("a token count is a whole number within 0 and 2147483647.");
      }
      expect(':');
      const double probability = number(',');
      if (probability < 0) {
        fail("a probability is not negative.");
      }
      sum += probability;
      out.tokens.push_back(static_cast<std::int32_t>(tokens));
      out.cumulative.push_back(sum);
      if (skip_blanks().starts_with(',')) {
        left_.remove_prefix(1);
      }
    }
    expect('}');
    finish(out, sum);
    return out;
  }

 private:
  void finish(TokenDistribution& out, double sum) {
    if (!skip_blanks().empty()) {
      fail("there is something after the closing brace.");
    }
    if (out.empty()) {
      return;
    }
    // The files' sums differ from 1 by rounding only.
    if (!(std::abs(sum - 1.0) < 1e-3)) {
      fail(fmt::format("the probabilities add up to {}, not to 1.", sum));
    }
    for (double& c : out.cumulative) {
      c /= sum;
    }
    out.cumulative.back() = 1.0;
  }
  std::string_view skip_blanks() {
    left_.remove_prefix(std::min(left_.find_first_not_of(" \n\t"), left_.size()));
    return left_;
  }
  void expect(char c) {
    if (!skip_blanks().starts_with(c)) {
      fail(fmt::format("'{}' is missing.", c));
    }
    left_.remove_prefix(1);
  }
  double number(char stop) {
    skip_blanks();
    const std::size_t end = std::min({left_.find(stop), left_.find('}'), left_.size()});
    std::string_view word = left_.substr(0, end);
    word = word.substr(0, word.find_last_not_of(" \n\t") + 1);
    const std::optional<double> value = parse_number(word);
    if (!value) {
      fail("a number is missing or not finite.");
    }
    left_.remove_prefix(end);
    return *value;
  }
  [[noreturn]] void fail(const std::string& problem) const { throw InputError(place_, problem); }

  std::string_view left_;
  InputPlace place_;
};

// Collects the files of a pool in any order.
class PoolBuilder {
 public:
  explicit PoolBuilder(std::string source) { pool_.source = std::move(source); }

  void add(const ChunkName& name, ByteInput& input) {
    ServeGenClient& client = clients_[name.number];
    const bool known = name.is_trace ? !client.windows.empty() : client.lengths.has_value();
    refuse_if(known, {input.name(), 0, ""}, "this client's file is there twice; a pool holds one of each.");
    if (name.is_trace) {
      client.name = input.name();
      client.windows = read_client_windows(input);
    } else {
      client.lengths = read_client_lengths(input);
      for (const ClientLengths& w : *client.lengths) {
        entries_ += w.input.tokens.size() + w.output.tokens.size();
      }
    }
    refuse_if(entries_ > kMaxLengths || clients_.size() > 100000, {pool_.source, 0, ""},
              "the pool has too many clients or distributions.");
  }
  ServeGenPool finish() {
    for (auto& [number, client] : clients_) {
      refuse_if(client.windows.empty(), {pool_.source, 0, ""},
                fmt::format("client {} has lengths but no rates: chunk-{}-trace.csv is missing.", number, number));
      client.number = number;
      const double window_s = client.windows.size() > 1 ? client.windows[1].start_s - client.windows[0].start_s : 600.0;
      pool_.window_s = pool_.clients.empty() ? window_s : pool_.window_s;
      refuse_if(window_s != pool_.window_s, {client.name, 0, ""},
                "its windows are not as long as those of the other clients.");
      pool_.end_s = std::max(pool_.end_s, client.windows.back().start_s + window_s);
      pool_.clients.push_back(std::move(client));
    }
    refuse_if(pool_.clients.empty(), {pool_.source, 0, ""}, "there is no chunk-i-trace.csv in it.");
    return std::move(pool_);
  }

 private:
  ServeGenPool pool_;
  std::map<std::int64_t, ServeGenClient> clients_;
  std::size_t entries_ = 0;
};

}  // namespace

std::int32_t TokenDistribution::at(double u) const {
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u);
  return tokens[std::min(static_cast<std::size_t>(found - cumulative.begin()), tokens.size() - 1)];
}

double TokenDistribution::mean() const {
  double sum = 0.0, before = 0.0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    sum += tokens[i] * (cumulative[i] - before);
    before = cumulative[i];
  }
  return sum;
}

std::vector<ClientWindow> read_client_windows(ByteInput& input) {
  LineReader lines(input);
  std::vector<ClientWindow> out;
  for (std::string_view line; lines.next(line);) {
    const std::vector<std::string_view> fields = split_fields(line);
    if (fields.size() < 6) {
      lines.fail(
          fmt::format("the row has {} fields; 6 are needed (start, rate, cv, family, shape, scale).", fields.size()));
    }
    const std::optional<double> start = parse_number(fields[0]), rate = parse_number(fields[1]);
    if (!start || *start < 0 || *start > kMaxStart || !rate || *rate < 0 || *rate > 1e9) {
      lines.fail("the window's start (s) and rate (requests per second) must be numbers that are not negative.");
    }
    // All windows of a file are as long as the first one; gaps between them would hide requests.
    const double step = out.size() > 1 ? out[1].start_s - out[0].start_s : 0.0;
    const double since = out.empty() ? 0.0 : *start - out.back().start_s;
    if (!out.empty() && (since <= 0 || (out.size() > 1 && since != step))) {
      lines.fail("the windows must follow each other at equal distances.");
    }
    out.push_back({*start, *rate, read_gap_rule(lines, fields[3], fields[4])});
  }
  if (out.empty()) {
    lines.fail("the file is empty; a row per window is needed.");
  }
  return out;
}

// The document {window: {"input_tokens": text, "output_tokens": text, ...}}; other texts of a window are passed over.
std::vector<ClientLengths> read_client_lengths(ByteInput& input) {
  std::vector<ClientLengths> out;
  std::size_t entries = 0;
  bool found = false;
  read_json_records(input, {}, [&](const JsonRecord& record) {
    if (std::exchange(found, true)) {
      record.fail("", "a second document ends here; the file holds one.");
    }
    for (const auto& [name, window] : record.fields.items()) {
      const std::optional<double> start = parse_number(name);
      if (!start || *start < 0 || *start > kMaxStart) {
        record.fail(name, "the windows' names must be times in seconds.");
      }
      ClientLengths lengths{*start, {}, {}};
      for (const auto& [key, target] :
           {std::pair("input_tokens", &lengths.input), {"output_tokens", &lengths.output}}) {
        if (!window.is_object() || (window.contains(key) && !window[key].is_string())) {
          record.fail(name, "this must be an object of windows, each with the texts input_tokens and output_tokens.");
        }
        if (window.contains(key)) {
          *target = DistributionParser(window[key].get_ref<const std::string&>(), {input.name(), 0, key}).parse();
          entries += target->tokens.size();
        }
      }
      if (entries > kMaxLengths) {
        record.fail(name, fmt::format("the distributions have more than {} entries.", kMaxLengths));
      }
      out.push_back(std::move(lengths));
    }
  });
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.start_s < b.start_s; });
  const auto same =
      std::adjacent_find(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.start_s == b.start_s; });
  if (same != out.end()) {
    throw InputError({input.name(), 0, ""}, fmt::format("two windows start at {} s.", same->start_s));
  }
  return out;
}

ServeGenPool read_servegen_folder(const std::filesystem::path& folder) {
  PoolBuilder pool(folder.string());
  for (const std::filesystem::path& file : files_in(folder)) {
    if (const auto name = parse_name(file.string())) {
      ByteInput input(file);
      pool.add(*name, input);
    }
  }
  return pool.finish();
}

ServeGenPool read_servegen_archive(ByteInput& input) {
  ArchiveReader archive(input, ArchiveReader::Kind::kTar);
  PoolBuilder pool(input.name());
  while (const std::optional<std::string> entry = archive.next()) {
    if (const auto name = parse_name(*entry)) {
      ByteInput file = ByteInput::from_memory(input.name() + "/" + *entry, archive.read_all(kMaxArchived));
      pool.add(*name, file);
    }
  }
  return pool.finish();
}

}  // namespace epsim
