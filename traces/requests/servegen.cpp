// Requests drawn from ServeGen's client statistics.
#include "traces/requests/servegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/refuse.h"
#include "traces/requests/read_requests.h"
#include "traces/requests/request_collector.h"
#include "traces/requests/sources.h"

namespace epsim {

namespace {

struct Drawn {
  Ticks arrival;
  std::int32_t input_tokens, output_tokens;
  std::uint32_t client;  // index in the pool: the order of equal instants, and the name for messages
};

// The stretch of the recording that is wanted.
struct Slice {
  double start_s, end_s;
};

Slice slice_of(const ServeGenPool& pool, const RequestOptions& options) {
  const double start_s = to_seconds(options.slice_start).count();
  const double end_s = options.slice_length ? start_s + to_seconds(*options.slice_length).count() : pool.end_s;
  return {start_s, std::min(end_s, pool.end_s)};
}

class Sampler {
 public:
  Sampler(const ServeGenPool& pool, const ServeGenOptions& wanted, const RequestOptions& options)
      : pool_(pool), wanted_(wanted), options_(options), slice_(slice_of(pool, options)) {}

  RequestTable run() {
    check_clients();
    scale_rates();
    for (std::size_t c = 0; c < pool_.clients.size(); ++c) {
      for (std::size_t w = 0; uses(pool_.clients[c]) && w < pool_.clients[c].windows.size(); ++w) {
        draw_window(c, w);
      }
    }
    std::sort(drawn_.begin(), drawn_.end(), [](const Drawn& a, const Drawn& b) {
      return a.arrival != b.arrival ? a.arrival < b.arrival : a.client < b.client;
    });
    return collect();
  }

 private:
  bool uses(const ServeGenClient& client) const {
    return wanted_.clients.empty() || wanted_.clients.contains(client.number);
  }

  void check_clients() const {
    for (const std::int64_t number : wanted_.clients) {
      const auto known = [&](const ServeGenClient& c) { return c.number == number; };
      refuse_if(std::none_of(pool_.clients.begin(), pool_.clients.end(), known), {pool_.source, 0, "clients"},
                fmt::format("there is no client {} in the pool.", number));
    }
  }

  // Overlap of a window with the slice, in seconds.
  double overlap(const ClientWindow& w) const {
    return std::max(0.0, std::min(w.start_s + pool_.window_s, slice_.end_s) - std::max(w.start_s, slice_.start_s));
  }

  // Finds the factor on all rates, and refuses what would not fit into memory.
  void scale_rates() {
    double expected = 0.0, drawn = 0.0;  // windows are drawn whole
    for (const ServeGenClient& client : pool_.clients) {
      for (const ClientWindow& w : client.windows) {
        const double part = uses(client) ? overlap(w) : 0.0;
        const bool left_out = part > 0 && wanted_.skip_missing && lengths_at(client, w.start_s) == nullptr;
        expected += left_out ? 0.0 : w.rate * part;
        drawn += part > 0 ? w.rate * pool_.window_s : 0.0;
      }
    }
    refuse_if(
        !(expected > 0), {pool_.source, 0, "slice_start"},
        fmt::format("no client{} sends anything in this slice.", wanted_.skip_missing ? " that has lengths" : ""));
    if (options_.rate) {
      factor_ = options_.rate->count() * (slice_.end_s - slice_.start_s) / expected;
    }
    refuse_if(drawn * factor_ > kMaxRequests, {pool_.source, 0, "slice_length"},
              fmt::format("the clients send {:.3g} requests in this slice; at most {:.0e} are allowed. Take a shorter "
                          "slice, fewer clients or a lower rate.",
                          drawn * factor_, kMaxRequests));
  }

  // The distributions that hold at a window of rates: those of the last window of lengths that starts by then. Null:
  // there are none.
  const ClientLengths* lengths_at(const ServeGenClient& client, double start_s) const {
    const ClientLengths* found = nullptr;
    for (std::size_t i = 0; client.lengths && i < client.lengths->size(); ++i) {
      const ClientLengths& l = (*client.lengths)[i];
      found = l.start_s <= start_s ? &l : found;
    }
    return found != nullptr && !found->input.empty() && !found->output.empty() ? found : nullptr;
  }

  void draw_window(std::size_t c, std::size_t w) {
    const ServeGenClient& client = pool_.clients[c];
    const ClientWindow& window = client.windows[w];
    if (window.rate <= 0 || overlap(window) <= 0) {
      return;
    }
    const ClientLengths* lengths = lengths_at(client, window.start_s);
    if (lengths == nullptr && !wanted_.skip_missing) {
      throw InputError({client.name, static_cast<int>(w) + 1, "missing_lengths"},
                       fmt::format("this client sends requests, but {}. Set missing_lengths: skip to leave such "
                                   "requests out.",
                                   client.lengths ? "its length file has no lengths for this window"
                                                  : fmt::format("chunk-{}-dataset.json is missing", client.number)));
    }
    const auto number = static_cast<std::uint64_t>(client.number);
    RandomStream gaps(options_.seed, "requests.servegen.arrivals", number, w);
    RandomStream draws(options_.seed, "requests.servegen.lengths", number, w);
    const double mean_s = 1.0 / (window.rate * factor_);
    double at_s = window.gaps.first(gaps) * mean_s;
    while (at_s < pool_.window_s) {
      if (lengths != nullptr) {
        const double u = draws.uniform();
        const double v = wanted_.ranked ? u : draws.uniform();
        const Ticks arrival = to_ticks(Seconds{window.start_s}) + to_ticks(Seconds{at_s});
        check_size(client);
        drawn_.push_back({arrival, lengths->input.at(u), lengths->output.at(v), static_cast<std::uint32_t>(c)});
      } else {
        ++skipped_;
      }
      at_s += window.gaps.draw(gaps) * mean_s;
    }
  }

  // The expected number was checked; bursts can still exceed it.
  void check_size(const ServeGenClient& client) const {
    if (static_cast<double>(drawn_.size()) > 1.1 * kMaxRequests) {
      throw InputError({client.name, 0, "slice_length"}, "the slice gets too many requests; take a shorter one.");
    }
  }

  RequestTable collect() const {
    RequestOptions options = options_;
    options.rate.reset();  // reached by scaling the clients
    RequestCollector collector(options);
    for (const Drawn& d : drawn_) {
      collector.add(d.arrival, d.input_tokens, d.output_tokens, {pool_.clients[d.client].name, 0, ""});
    }
    std::string source = pool_.source + fmt::format(" (drawn, seed {})", static_cast<std::uint64_t>(options_.seed));
    if (skipped_ > 0) {
      source += fmt::format(" ({} requests without lengths skipped, {} drawn)", skipped_, drawn_.size());
    }
    return collector.finish(source);
  }

  const ServeGenPool& pool_;
  const ServeGenOptions& wanted_;
  const RequestOptions& options_;
  Slice slice_;
  double factor_ = 1.0;
  std::vector<Drawn> drawn_;
  std::int64_t skipped_ = 0;
};

}  // namespace

RequestTable sample_servegen(const ServeGenPool& pool, const ServeGenOptions& wanted, const RequestOptions& options) {
  refuse_if(pool.end_s > Seconds(kLongestRecording).count(), {pool.source, 0, ""},
            "the recording is longer than 100 days, more than a run can be.");
  return Sampler(pool, wanted, options).run();
}

namespace {

enum class MissingLengths { kError, kSkip };
enum class JointLengths { kIndependent, kRanked };

}  // namespace

template <>
inline constexpr auto kNames<MissingLengths> = choice<MissingLengths>({{"error", MissingLengths::kError},
                                                                       {"skip", MissingLengths::kSkip}});
template <>
inline constexpr auto kNames<JointLengths> = choice<JointLengths>({{"independent", JointLengths::kIndependent},
                                                                   {"ranked", JointLengths::kRanked}});

namespace {

constexpr KeyTable kServeGenKeys =
    KeyTable({
        {"clients", key::wholes(), key::by("all"), "Clients to draw."},
        {"missing_lengths", key::one_of<MissingLengths>(), key::is(MissingLengths::kError),
         "What to do with clients that have no length data."},
        {"joint_lengths", key::one_of<JointLengths>(), key::is(JointLengths::kIndependent),
         "How prompt and answer lengths are paired."},
    }) +
    kRecordingKeys;

RequestTable make_servegen(ConfigReader& in, Seed seed) {
  const std::filesystem::path path = in.path(kRecordingKeys["path"]);
  ServeGenOptions wanted;
  for (const std::int64_t number :
       in.maybe<std::vector<std::int64_t>>(kServeGenKeys["clients"]).value_or(std::vector<std::int64_t>{})) {
    wanted.clients.insert(number);
  }
  wanted.skip_missing = in.read<MissingLengths>(kServeGenKeys["missing_lengths"]) == MissingLengths::kSkip;
  wanted.ranked = in.read<JointLengths>(kServeGenKeys["joint_lengths"]) == JointLengths::kRanked;
  const RequestOptions options = read_request_options(in, seed, EqualTimes::kKeep);
  in.check(!options.rate || options.rate_by == RateMethod::kStretch, "rate_by",
           "the rate of clients is reached by scaling each client's rate; leave this key out.");
  if (std::filesystem::is_directory(path)) {
    return sample_servegen(read_servegen_folder(path), wanted, options);
  }
  ByteInput input(path);
  return sample_servegen(read_servegen_archive(input), wanted, options);
}

}  // namespace

extern const RequestSource kServeGenSource{
    "servegen", "requests drawn from ServeGen's client statistics (folder or tar.gz)", make_servegen, kServeGenKeys};

}  // namespace epsim
