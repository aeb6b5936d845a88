#include "sim/verbs/capacity_demand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/core/statistics.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "traces/requests/read_requests.h"

namespace epsim {

namespace {

constexpr double kHour = 3600;  // seconds of a trace that the demand is taken from

struct Demand {
  CapacityQuestion& question;
  CapacityPlan& plan;
  double growth;
  double asked_rate = 0;  // before growth
};

// How long a request may take: bounds of end to end, or of TTFT and TPOT.
double allowed_stay(const Slo& slo, double output_tokens) {
  double ttft = 0, tpot = 0, e2e = 0;
  for (const SloTerm& term : slo.terms) {
    double& bound = term.metric == LatencyMetric::kTtft ? ttft : term.metric == LatencyMetric::kTpot ? tpot : e2e;
    bound = bound > 0 ? std::min(bound, term.bound.count()) : term.bound.count();
  }
  if (e2e > 0 || (ttft > 0 && tpot > 0)) {
    const double parts = ttft > 0 && tpot > 0 ? ttft + tpot * std::max(0.0, output_tokens - 1) : e2e;
    return e2e > 0 ? std::min(e2e, parts) : parts;
  }
  throw InputError({"", 0, "concurrency"},
                   "requests in flight need bounds on how long each may take: on e2e, or on both ttft and tpot.");
}

std::optional<double> read_rate(CapacityGiven& given) {
  return given.word("rate") ? std::optional(given.quantity("rate", "/s", 0)) : std::nullopt;
}

struct TraceHour {
  double start_s = 0, length_s = 0, rate = 0;
};

// The hour with the most requests, which may begin at any of them; all of a shorter trace. With `share` below 1 the trace
// is cut into hours, of which at least this share have no more requests than the one returned.
TraceHour busy_hour(const RequestTrace& trace, double share) {
  const auto arrivals = mapped(trace.requests, [](const Request& r) { return to_seconds(r.arrival).count(); });
  std::vector<double> starts;
  refuse_if(arrivals.empty() || arrivals.back() <= arrivals.front(), {trace.source, 0, "requests"},
            "the trace has no arrivals apart in time, so it has no rate.");
  const double span = arrivals.back() - arrivals.front(), length = std::min(kHour, span);
  for (int hour = 0; hour < std::lround(span / length); ++hour) {
    starts.push_back(arrivals.front() + hour * length);
  }
  std::vector<std::pair<std::ptrdiff_t, double>> hours;  // requests, start
  for (const double start : share < 1 ? starts : arrivals) {
    const auto first = std::lower_bound(arrivals.begin(), arrivals.end(), start);
    hours.emplace_back(std::lower_bound(first, arrivals.end(), start + length) - first, start);
  }
  std::sort(hours.begin(), hours.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;  // the first of equally busy hours comes last
  });
  const auto& [requests, start] = hours[quantile_position(share, hours.size())];
  return {start, length, static_cast<double>(requests) / length};
}

double mean_rate(const RequestTrace& trace) {
  const auto& all = trace.requests;
  return static_cast<double>(all.size() - 1) / to_seconds(all.back().arrival - all.front().arrival).count();
}

// The hour on the recording's own clock, in which slices are stated, at the rate that `rate` or `time_scale` give it.
// ServeGen's pools are drawn at the stated rate, on their own clock.
TraceHour recorded_hour(const Config& asked, const RequestTrace& trace, double share) {
  ConfigReader requests = asked.root().section("requests");
  const auto rate = requests.maybe<RequestsPerSecond>("rate");
  const auto scale = requests.maybe<double>("time_scale");
  TraceHour out;
  if ((!rate && !scale) || requests.required<std::string>("kind") == "servegen") {
    out = busy_hour(trace, share);
  } else {
    Config config = asked.clone();
    for (const char* key : {"rate", "rate_by", "time_scale"}) {
      config.set(fmt::format("requests.{}=null", key));
    }
    const RequestTrace recorded = read_scenario(config, {}).requests;
    out = busy_hour(recorded, share);
    out.rate *= rate ? rate->count() / mean_rate(recorded) : *scale;
  }
  out.start_s += requests.maybe<Seconds>("slice_start").value_or(Seconds{}).count();
  return out;
}

constexpr const char* kOneRate = "a rate is the same all the time: give a trace as scenario.requests.";

// What sets the rate of the scenario's requests. Of conversations as many requests as each has come for each that starts,
// once as many end as start; a trace begins with none.
struct RateKey {
  std::string name = "rate";
  double requests = 1;   // for each of its events that arrive
  double meant = 1;      // that it would have, were none left out
  double rate = 0;       // of requests
  double mean = 0;       // likewise, where that is a day's highest
  bool at_peak = false;  // of requests whose rate follows the clock
};

// Of generated requests; `rate`: in requests/s, a day's highest.
RateKey rate_key(ConfigReader requests, Seed seed) {
  const RequestSource& source = request_source(requests);
  RateKey out;
  if (source.rate_range != nullptr) {
    const RateRange range = source.rate_range(requests);
    out.rate = range.peak;
    out.mean = range.mean;
    out.at_peak = true;
    return out;
  }
  if (source.rate_key.empty()) {
    std::string allowed;
    for (const RequestSource& other : request_sources()) {
      allowed += other.rate_key.empty() ? "" : fmt::format("{}{}", allowed.empty() ? "" : ", ", other.name);
    }
    throw InputError(
        {"", 0, "scenario.requests"},
        fmt::format("requests of kind {} have no rate that could be set: allowed are {} and recorded traces.",
                    source.name, allowed));
  }
  out.name = source.rate_key;
  if (!source.requests_key.empty()) {
    out.meant = requests.required<double>(std::string(source.requests_key));
    out.requests = out.meant * source.arriving_share(requests, seed);
  }
  out.rate = requests.required<RequestsPerSecond>(out.name).count() * out.requests;
  return out;
}

// Clients of equal lengths run in step: those that began together end together, and their prompts meet.
std::string around(int tokens) {
  const int least = std::max(1, static_cast<int>(std::lround(0.8 * tokens)));
  return fmt::format("{{kind: uniform, min: {}, max: {}}}", least, 2 * std::int64_t{tokens} - least);
}

// The demand as a rate with lengths.
void read_plain_demand(CapacityGiven& given, Demand& out, double times, double time_share) {
  CapacityQuestion& q = out.question;
  const int input = given.whole("input-tokens", 0, 1), output = given.whole("output-tokens", 0, 1);
  std::optional<double> rate = read_rate(given);
  if (given.word("concurrency") && output > 0) {
    refuse_if(rate.has_value(), "concurrency", "name --rate or --concurrency, not both.");
    q.in_flight = times * (1 + out.growth) * given.number("concurrency", 0, 1);
    q.share_differs = q.in_flight > 0;
    rate = given.number("concurrency", 0, 1) / allowed_stay(q.options.slo, output);
  }
  const bool tpot = std::any_of(q.options.slo.terms.begin(), q.options.slo.terms.end(),
                                [](const SloTerm& term) { return term.metric == LatencyMetric::kTpot; });
  refuse_if(tpot && output == 1, "tpot", "answers of one token have no time per output token.");
  refuse_if(time_share < 1, "time_share", kOneRate);
  refuse_if(!rate || input == 0, "rate",
            "name the demand, as in --rate 20/s --input-tokens 4096 --output-tokens 500, or give "
            "scenario.requests in the file.");
  out.asked_rate = times * *rate;
  const bool clients = q.in_flight > 0;
  q.settings.push_back(
      fmt::format("requests={{kind: poisson, rate: {}/s, count: 1000, {}}}", out.asked_rate * (1 + out.growth),
                  clients ? fmt::format("lengths: {{input: {}, output: {}}}", around(input), around(output))
                          : fmt::format("input_tokens: {}, output_tokens: {}", input, output)));
  out.plan.demand =
      fmt::format("{:.6g} {} of {} input and {} output tokens{}", clients ? q.in_flight : out.asked_rate,
                  clients ? "requests in flight" : "requests/s", input, output, clients ? ", each within 20 %" : "");
}

// Requests whose rate follows the clock as a setting, without that.
std::string as_poisson(ConfigReader requests) {
  const auto sources = request_sources();
  const std::span<const Key> taken = std::ranges::find(sources, "poisson", &RequestSource::name)->keys;
  const RequestSource& source = request_source(requests);
  const auto has = [](std::span<const Key> keys, const std::string& key) {
    return std::ranges::find(keys, key, &Key::name) != keys.end();
  };
  std::string out = "requests={kind: poisson";
  for (const auto& [key, value] : requests.rest()) {
    if (key != source.rate_key && (has(taken, key) || !has(source.keys, key))) {
      out += fmt::format(", {}: {}", key, value);
    }
  }
  return out + "}";
}

// A trace's peak. `scaled`: by the user, too.
void take_recorded(const TraceHour& peak, bool scaled, double time_share, const CapacityGiven& given, Demand& out) {
  CapacityQuestion& q = out.question;
  refuse_if(given.names("seeds") && q.seeds > 0, "seeds",
            "the highest rate, which is searched under these seeds, is of a steady load; a recorded trace has none.");
  q.seeds = 0;
  q.share_differs = true;
  q.settings.push_back(fmt::format("requests.slice_start={:.12g}s", peak.start_s));
  q.settings.push_back(fmt::format("requests.slice_length={:.12g}s", peak.length_s));
  if (scaled) {
    q.settings.emplace_back("requests.time_scale=null");  // the rate below says it
  }
  out.plan.demand +=
      time_share < 1 ? fmt::format(", {:.4g} % of whose hours are no busier than that from {:.0f} s on",
                                   100 * time_share, peak.start_s)
                     : fmt::format(", its peak {} from {:.0f} s on",
                                   peak.length_s == kHour ? "hour" : fmt::format("{:.3g} hours", peak.length_s / kHour),
                                   peak.start_s);
  out.plan.demand += fmt::format(" ({:.4g} requests/s there; latencies are of its busiest stretch)", peak.rate);
}

// The demand as the scenario's requests: a trace's peak hour, or generated ones.
void read_scenario_demand(CapacityGiven& given, Demand& out, double times, double time_share) {
  CapacityQuestion& q = out.question;
  NewScenario probe{"sglang", q.model, "DGX-H200", "bf16"};
  Config config = Config::from_text(scenario_document(probe), "");
  for (const std::string& setting : q.settings) {  // --set requests.path, too
    if (setting.starts_with("requests")) {
      config.set(setting);
    }
  }
  ConfigReader written = config.root().section("requests");
  if (written.has("rate_by") && !written.has("rate")) {
    config.set("requests.rate_by=null");  // of the rate that the demand will have
  }
  const Scenario scenario = read_scenario(config, {});
  const bool generated = static_cast<bool>(scenario.make_requests);
  refuse_if(generated && time_share < 1, "time_share", kOneRate);
  const RateKey key = generated ? rate_key(written, scenario.seed) : RateKey{};
  const TraceHour peak = generated ? TraceHour{.rate = key.rate} : recorded_hour(config, scenario.requests, time_share);
  refuse_if(given.word("concurrency").has_value(), "concurrency",
            "requests in flight are of --input-tokens and --output-tokens; a scenario's requests have a rate.");
  out.asked_rate = times * read_rate(given).value_or(peak.rate);
  const double mean = generated ? key.mean : mean_rate(scenario.requests);
  out.plan.mean_rate = out.asked_rate * (1 + out.growth) * mean / peak.rate;
  out.plan.demand = fmt::format("{:.4g} requests/s{} {}", out.asked_rate,
                                key.at_peak ? ", Poisson arrivals at the peak of" : " as in", scenario.requests.source);
  const std::string left = fmt::format("{:.3g}", key.requests), meant = fmt::format("{:.3g}", key.meant);
  if (left != meant) {
    out.plan.demand += fmt::format("; max_context leaves {} of {} turns", left, meant);
  }
  if (!generated) {
    take_recorded(peak, written.has("time_scale"), time_share, given, out);
  }
  if (key.at_peak) {  // as long as it takes to tell
    std::erase_if(q.settings, [](const std::string& setting) { return setting.starts_with("requests"); });
    q.settings.push_back(as_poisson(config.root().section("requests")));
  }
  q.settings.push_back(
      fmt::format("requests.{}={:.12g}/s", key.name, out.asked_rate * (1 + out.growth) / key.requests));
}

}  // namespace

double read_demand(CapacityGiven& given, double growth, CapacityQuestion& question, CapacityPlan& plan) {
  Demand out{question, plan, growth};
  CapacityQuestion& q = question;
  const double times = given.number("times", 1), time_share = given.number("time-share", 1);
  refuse_if(!(times > 0), "times", "a factor on the rate must be above 0.");
  refuse_if(!(time_share > 0 && time_share <= 1), "time_share", "a share of the time must be above 0 and at most 1.");
  const bool own = std::any_of(q.settings.begin(), q.settings.end(),
                               [](const std::string& setting) { return setting.starts_with("requests="); });
  own ? read_scenario_demand(given, out, times, time_share) : read_plain_demand(given, out, times, time_share);
  refuse_if(!(out.asked_rate > 0), "rate", "the demand must be above 0.");
  q.rate = out.asked_rate * (1 + out.growth);
  if (out.growth > 0 && q.in_flight == 0) {
    out.plan.demand += fmt::format(", {:.6g} requests/s with {:.4g} % growth", q.rate, 100 * out.growth);
  }
  return out.asked_rate;
}

}  // namespace epsim
