#include "traces/requests/read_requests.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "traces/requests/detect.h"
#include "traces/requests/prefix_blocks.h"
#include "traces/requests/request_options.h"

namespace epsim {

// Defined beside each reader.
extern const RequestSource kPoissonSource, kConstantSource, kGammaSource, kOnOffSource, kDiurnalSource,
    kClosedLoopSource, kSessionsSource, kAzureCsvSource, kBurstGptSource, kMooncakeSource, kServeGenSource,
    kBenchmarkSource, kCsvSource, kTraceFileSource;

namespace {

const RequestSource& source_of(const std::string& kind) {
  const auto all = request_sources();
  return *std::ranges::find(all, kind, &RequestSource::name);
}

RequestTable make_detected(ConfigReader& in, Seed seed) {
  return source_of(detect_request_kind(in.path(kRecordingKeys["path"]))).read(in, seed);
}

constexpr RequestSource kDetectedSource{"auto", "a recorded trace (path), its kind detected from its first bytes",
                                        make_detected, kRecordingKeys};

constexpr KeyTable kKeys({
    {"kind", key::one_of([] { return entry_names(request_sources()); }, "epsim list readers"), key::kRequired,
     "Kind of arrivals, or format of a recorded trace."},
    {"seed", key::whole(), key::by("the scenario's"), "Seed of the requests alone."},
});

}  // namespace

std::span<const RequestSource> request_sources() {
  static const RequestSource all[] = {kPoissonSource,   kConstantSource,   kGammaSource,    kOnOffSource,
                                      kDiurnalSource,   kClosedLoopSource, kSessionsSource, kDetectedSource,
                                      kAzureCsvSource,  kBurstGptSource,   kMooncakeSource, kServeGenSource,
                                      kBenchmarkSource, kCsvSource,        kTraceFileSource};
  return all;
}

std::vector<SectionKeys> request_keys() {
  std::vector<SectionKeys> out{{"requests", "", kKeys}};
  add_entries("requests", request_sources(), out);
  return out;
}

const RequestSource& request_source(ConfigReader& in) { return source_of(in.read<std::string>(kKeys["kind"])); }

RequestTable read_request_table(ConfigReader& in, Seed seed) {
  const RequestSource& source = request_source(in);
  if (const auto own = in.maybe<std::int64_t>(kKeys["seed"])) {
    seed = static_cast<Seed>(*own);
  }
  return source.read(in, seed);
}

RequestTrace read_requests(ConfigReader& in, Seed seed) {
  RequestTable table = read_request_table(in, seed);
  table.trace.prefixes = chain_prefix_blocks(table);
  return std::move(table.trace);
}

}  // namespace epsim
