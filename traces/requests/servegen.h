// ServeGen's statistics of production clients (github.com/alibaba/ServeGen; Xiang et al. 2025), and requests drawn from
// them.
//
// Each client i has two files. chunk-i-trace.csv, without a header, has a row per window: its start (s), the rate
// (requests per second), the coefficient of variation of the gaps, the family of their distribution (Gamma, Weibull, or
// nothing for exponential), its shape and its scale. chunk-i-dataset.json gives, per window of its own (longer ones),
// the distributions of input and output tokens as texts "{tokens: probability, ...}".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "traces/format/request_table.h"
#include "traces/format/text_input.h"
#include "traces/requests/arrivals.h"
#include "traces/requests/request_options.h"

namespace epsim {

// Token counts with their cumulative probability; the last one is 1. Empty where the client sent nothing.
struct TokenDistribution {
  std::vector<std::int32_t> tokens;
  std::vector<double> cumulative;

  bool empty() const { return tokens.empty(); }
  // The smallest count whose cumulative probability is above `u` in [0, 1).
  std::int32_t at(double u) const;
  double mean() const;
};

struct ClientWindow {
  double start_s = 0.0, rate = 0.0;
  GapRule gaps;  // the recorded shape; the mean gap is 1 / rate, as the recorded scale is a fit that may differ
};

struct ClientLengths {
  double start_s = 0.0;
  TokenDistribution input, output;
};

struct ServeGenClient {
  std::int64_t number = 0;
  std::string name;                                   // of its rate file, for messages
  std::vector<ClientWindow> windows;                  // ascending
  std::optional<std::vector<ClientLengths>> lengths;  // ascending; nothing: the file is missing
};

struct ServeGenPool {
  std::string source;
  std::vector<ServeGenClient> clients;  // by number
  double window_s = 0.0;                // the length of the windows of rates, the same for all
  double end_s = 0.0;                   // of the last window
};

// One file each; both throw InputError with its line. `window_s` is set from the first rows' distance.
std::vector<ClientWindow> read_client_windows(ByteInput& input);
std::vector<ClientLengths> read_client_lengths(ByteInput& input);

// A folder, or a tar archive (gzipped or not); other files in it are passed over. The archive may hold one pool.
ServeGenPool read_servegen_folder(const std::filesystem::path& folder);
ServeGenPool read_servegen_archive(ByteInput& input);

// Keys besides path and those of RequestOptions:
//   clients          numbers of the clients to use; all by default
//   missing_lengths  error (default) | skip: what a client without a length file, or a window with requests but without
//                    lengths, is; skipped requests are counted in the trace's source
//   joint_lengths    independent (default) | ranked: the files hold input and output lengths apart; `ranked` draws both
//                    at the same quantile, as ServeGen's own generator does
// `rate` scales all clients' rates alike, so that those of requests that are not skipped add up to this mean over the
// slice; the time axis stays.
struct ServeGenOptions {
  std::set<std::int64_t> clients;
  bool skip_missing = false;
  bool ranked = false;
};

// Draws each client's requests, window by window, as a stationary renewal process: on average rate x window of them.
// A client's window depends on the seed, the client and the window alone, so a slice holds the requests that the whole
// would hold there.
RequestTable sample_servegen(const ServeGenPool& pool, const ServeGenOptions& wanted, const RequestOptions& options);

}  // namespace epsim
