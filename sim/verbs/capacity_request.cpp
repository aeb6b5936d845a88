#include "sim/verbs/capacity_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "policies/registry.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/scenario/engine_defaults.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/load_point.h"
#include "sim/study/study_manifest.h"
#include "sim/verbs/capacity_space.h"
#include "traces/requests/read_requests.h"

namespace epsim {

namespace {

constexpr int kCapacityFormat = 1;     // of study.json
constexpr double kHour = 3600;         // seconds of a trace that the demand is taken from
constexpr double kAskedFillings = 10;  // GoodputOptions::min_requests_ratio of a question
constexpr std::size_t kQuickRequests = 300, kMostQuickRequests = 3000;  // more where a run of the first is unclear

// "p99=2s" of --ttft as a term of --slo.
Slo slo_of(CapacityGiven& given) {
  std::string text = given.word("slo").value_or("");
  for (const char* metric : {"ttft", "tpot", "e2e"}) {
    if (const auto bound = given.word(metric)) {
      const bool plain = bound->find_first_of("=<") == std::string::npos;
      const std::string term = std::string(metric) + (plain ? "<" : ".") + *bound;
      of_option(metric, [&] { return parse_slo(term); });
      text += (text.empty() ? "" : ",") + term;
    }
  }
  refuse_if(text.empty(), "slo", "name what the deployment must hold, as in --ttft p99=2s --tpot p99=50ms.");
  Slo slo = parse_slo(text);
  for (const SloTerm& low : slo.terms) {
    for (const SloTerm& high : slo.terms) {
      const bool percentiles = low.stat >= LatencyStat::kP50 && low.stat < high.stat;
      refuse_if(
          low.metric == high.metric && percentiles && low.bound > high.bound, "slo",
          fmt::format("{} contradicts {}: a percentile is never above a higher one.", name_of(low), name_of(high)));
    }
  }
  return slo;
}

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
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(hours.size())));
  const auto& [requests, start] = hours[std::max<std::size_t>(1, rank) - 1];
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

// "craft:8" has 8 copies under the label craft_r8: the policy's replication_factor or else its num_redundant_experts.
std::vector<std::string> read_policies(const std::vector<std::string>& names, std::vector<std::string>& settings) {
  constexpr std::string_view kPerGpu = "replication_factor";
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const std::size_t colon = name.find(':');
    if (colon == std::string::npos) {
      out.push_back(name);
      continue;
    }
    const std::string kind = name.substr(0, colon), copies = name.substr(colon + 1);
    refuse_if(copies.empty() || copies.size() > 6 || copies.find_first_not_of("0123456789") != std::string::npos,
              "policies", fmt::format("'{}' is neither POLICY nor POLICY:COPIES, as in craft:8 and eplb:32.", name));
    const PlacementPolicyEntry* entry = find_named(placement_policies(), kind);
    const bool per_gpu = entry != nullptr && std::any_of(entry->keys.begin(), entry->keys.end(),
                                                         [&](const Key& key) { return key.name == kPerGpu; });
    out.push_back(kind + "_r" + copies);
    settings.push_back(fmt::format("policies.{}={{kind: {}, {}: {}}}", out.back(), kind,
                                   per_gpu ? kPerGpu : "num_redundant_experts", copies));
  }
  return out;
}

// `texts`: NODE=PRICE, or a file with one of these on each line and comments behind #.
std::vector<OwnPrice> read_prices(const std::vector<std::string>& texts) {
  std::vector<OwnPrice> out;
  const auto add = [&](const std::string& text) {
    OwnPrice price = parse_price(text);
    of_option("price", [&] { return find_node(price.node); });  // throws where there is none
    refuse_if(std::ranges::any_of(out, [&](const OwnPrice& other) { return other.node == price.node; }), "price",
              fmt::format("{} has two prices; give one.", price.node));
    out.push_back(std::move(price));
  };
  for (const std::string& text : texts) {
    if (text.find('=') != std::string::npos) {
      add(text);
      continue;
    }
    refuse_if(!std::filesystem::exists(text), "price",
              fmt::format("'{}' is neither a file nor NODE=PRICE, as in p5en.48xlarge=31.6usd/h.", text));
    std::istringstream lines(read_file(text));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      line.erase(std::min(line.find('#'), line.size()));
      line.erase(std::remove_if(line.begin(), line.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
                 line.end());
      try {
        if (!line.empty()) {
          add(line);
        }
      } catch (const InputError& e) {
        throw InputError({text, number, "price"}, e.problem);
      }
    }
  }
  return out;
}

constexpr const char* kOneRate = "a rate is the same all the time: give a trace as scenario.requests.";

// What sets the rate of the scenario's requests. Of conversations as many requests as each has come for each that starts,
// once as many end as start; a trace begins with none.
struct RateKey {
  std::string name = "rate";
  double requests = 1;   // for each of its events
  double rate = 0;       // of requests
  double mean = 0;       // likewise, where that is a day's highest
  bool at_peak = false;  // of requests whose rate follows the clock
};

// Of generated requests; `rate`: in requests/s, a day's highest.
RateKey rate_key(ConfigReader requests) {
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
    out.requests = requests.required<double>(std::string(source.requests_key));
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
void read_plain_demand(CapacityGiven& given, CapacityRequest& out, double times, double time_share) {
  CapacityQuestion& q = out.question;
  const int input = given.whole("input-tokens", 0, 1), output = given.whole("output-tokens", 0, 1);
  std::optional<double> rate = read_rate(given);
  if (given.word("concurrency") && output > 0) {
    refuse_if(rate.has_value(), "concurrency", "name --rate or --concurrency, not both.");
    q.in_flight = times * (1 + out.growth) * given.number("concurrency", 0, 1);
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

// The demand as the scenario's requests: a trace's peak hour, or generated ones.
void read_scenario_demand(CapacityGiven& given, CapacityRequest& out, double times, double time_share) {
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
  RateKey key = generated ? rate_key(written) : RateKey{};
  const auto arriving = request_source(written).arriving_share;
  const double share = generated && arriving != nullptr ? arriving(written, scenario.seed) : 1;
  const double of_each = key.requests;
  key.rate *= share;
  key.requests *= share;
  const TraceHour peak = generated ? TraceHour{.rate = key.rate} : recorded_hour(config, scenario.requests, time_share);
  refuse_if(given.word("concurrency").has_value(), "concurrency",
            "requests in flight are of --input-tokens and --output-tokens; a scenario's requests have a rate.");
  out.asked_rate = times * read_rate(given).value_or(peak.rate);
  const double mean = generated ? key.mean : mean_rate(scenario.requests);
  out.plan.mean_rate = out.asked_rate * (1 + out.growth) * mean / peak.rate;
  out.plan.demand = fmt::format("{:.4g} requests/s{} {}", out.asked_rate,
                                key.at_peak ? ", Poisson arrivals at the peak of" : " as in", scenario.requests.source);
  if (share < 1) {
    out.plan.demand += fmt::format("; max_context leaves {:.3g} of {:.4g} turns", key.requests, of_each);
  }
  if (!scenario.make_requests) {
    refuse_if(given.names("seeds") && q.seeds > 0, "seeds",
              "the highest rate, which is searched under these seeds, is of a steady load; a recorded trace has none.");
    q.seeds = 0;
    q.settings.push_back(fmt::format("requests.slice_start={:.12g}s", peak.start_s));
    q.settings.push_back(fmt::format("requests.slice_length={:.12g}s", peak.length_s));
    if (written.has("time_scale")) {
      q.settings.emplace_back("requests.time_scale=null");  // the rate below says it
    }
    out.plan.demand +=
        time_share < 1
            ? fmt::format(", {:.4g} % of whose hours are no busier than that from {:.0f} s on", 100 * time_share,
                          peak.start_s)
            : fmt::format(", its peak {} from {:.0f} s on",
                          peak.length_s == kHour ? "hour" : fmt::format("{:.3g} hours", peak.length_s / kHour),
                          peak.start_s);
    out.plan.demand += fmt::format(" ({:.4g} requests/s there; latencies are of its busiest stretch)", peak.rate);
  }
  if (key.at_peak) {  // as long as it takes to tell
    std::erase_if(q.settings, [](const std::string& setting) { return setting.starts_with("requests"); });
    q.settings.push_back(as_poisson(config.root().section("requests")));
  }
  q.settings.push_back(
      fmt::format("requests.{}={:.12g}/s", key.name, out.asked_rate * (1 + out.growth) / key.requests));
}

void read_demand(CapacityGiven& given, CapacityRequest& out) {
  CapacityQuestion& q = out.question;
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
}

// What the search itself chooses, pays for and writes into launch files has options of its own.
struct Chosen {
  const char *section, *key, *option, *example;
};
constexpr Chosen kChosen[] = {{"cluster", "node", "nodes", ""},
                              {"cluster", "nodes", "sizes", ", as in 4"},
                              {"cluster", "gpus_per_node", "sizes", ", as in 64gpus or 1/2"},
                              {"parallelism", "attention_tp", "attention-tp", ""},
                              {"parallelism", "ep_size", "ep-size", ", as in 1"},
                              {"model", "dtype", "dtypes", ""},
                              {"serving", "engine", "engines", ""}};

void check_settings(const std::vector<std::string>& settings) {
  Config config = Config::from_text("{}", "");
  config.set(settings);
  for (const Chosen& chosen : kChosen) {
    refuse_if(config.root().section(chosen.section).has(chosen.key), fmt::format("{}.{}", chosen.section, chosen.key),
              fmt::format("this is a choice of the search: give --{}{}.", chosen.option, chosen.example));
  }
}

CapacityRequest read_question(const CapacityWords& words, CapacityGiven& given) {
  CapacityRequest out;
  CapacityQuestion& q = out.question;
  out.quick = given.flag("quick");
  const auto model = given.word("model");
  refuse_if(!model, "model", "name the model, as in --model kimi-k2");
  q.model = *model;
  q.dense = of_option("model", [&] { return find_model(*model); }).dense();  // throws where there is none
  q.options.slo = slo_of(given);
  q.options.min_requests_ratio = kAskedFillings;
  out.growth = given.number("growth", 0);
  q.spare = given.whole("spare", 0, 0);
  q.settings = given.scenario();
  q.policies = read_policies(given.list("policies", q.dense     ? "base"
                                                    : out.quick ? std::string(experts_in_order().name)
                                                                : "contiguous,base,eplb,craft"),
                             q.settings);
  if (const auto own = words.find("set"); own != words.end()) {
    refuse_repeated(own->second);
    q.settings.insert(q.settings.end(), own->second.begin(), own->second.end());
  }
  check_settings(q.settings);
  q.seeds = given.whole("seeds", out.quick ? 0 : 3, 0);
  read_demand(given, out);
  q.most_nodes = given.whole("max-nodes", 128, 1);
  out.plan.most_nodes = q.most_nodes;
  if (out.quick) {
    q.first_requests = kQuickRequests;
    q.most_requests = kMostQuickRequests;
    q.check_whole = false;
  }
  read_space(given, q, out.quick);
  for (CapacityDesign& layout : q.layouts) {
    check_settings(layout.settings);
    layout.knobs = knobs_for_memory(q, layout);
  }
  refuse_if(q.layouts.empty(), "attention-tp",
            "no layout is left: a value has to divide the GPUs of a node (of a part of one, of a dense model be all "
            "of the instance's), parts of a node have to divide its GPUs, and they and nodes without a network "
            "make instances of one node at most, prefill and decode together.");
  out.plan.prices.terms = given.word("terms").value_or("on_demand");
  const auto terms = price_terms();
  refuse_if(std::find(terms.begin(), terms.end(), out.plan.prices.terms) == terms.end(), "terms",
            unknown_name("terms", out.plan.prices.terms, terms));
  out.plan.prices.own = read_prices(given.repeated("price"));
  if (given.word("pue")) {
    out.plan.prices.pue = given.number("pue", 1, 1);
  }
  out.plan.prices.usd_per_kwh = given.quantity("kwh", "usd/kWh", 0, true);
  refuse_if(out.plan.prices.usd_per_kwh > 0 && out.plan.prices.own.empty(), "kwh",
            "listed prices include power; --kwh applies to your own prices, given by --price.");
  out.plan.most_usd_per_hour = given.quantity("budget", "usd/h", 0);
  out.plan.most_watts = 1e3 * given.quantity("power", "kW", 0);
  q.power_counts = power_counts(out.plan.most_watts, out.plan.prices);
  out.plan.model = q.model;
  out.plan.dense = q.dense;
  out.plan.rate = q.rate;
  out.plan.in_flight = q.in_flight;
  out.plan.slo = q.options.slo;
  given.finish();
  check_values(q);  // before the study has a folder
  return out;
}

// The error with its place in the file, where a value of the file is what is wrong.
InputError as_written(const CapacityGiven& given, const InputError& e) {
  std::string key = e.place.key;
  for (const Chosen& chosen : kChosen) {  // a scenario that the search made refuses what an option named
    key = key == fmt::format("{}.{}", chosen.section, chosen.key) ? chosen.option : key;
  }
  const bool placed = !e.place.file.empty() && e.place.file != "--set";  // which the file's `scenario` becomes
  const auto place = placed || key.empty() ? std::nullopt : given.place_in_file(key);
  return place ? InputError(*place, e.problem) : e;
}

}  // namespace

CapacityRequest read_capacity_request(const CapacityWords& words, const std::optional<Config>& file) {
  if (file) {
    file->root().check(!file->root().is_section("model"), "model",
                       "this is a scenario; capacity takes a question, as in experiments/capacity/kimi-k2.yaml, or "
                       "options alone.");
  }
  CapacityGiven given(words, file);
  try {
    return read_question(words, given);
  } catch (const InputErrors& e) {
    throw_all(mapped(e.all, [&](const InputError& one) { return as_written(given, one); }));
    throw;
  } catch (const InputError& e) {
    throw as_written(given, e);
  }
}

std::string capacity_manifest(const CapacityRequest& request) {
  const CapacityQuestion& q = request.question;
  nlohmann::ordered_json asked{{"model", q.model},
                               {"rate", q.rate},
                               {"in_flight", q.in_flight},
                               {"settings", q.settings},
                               {"options", goodput_options_json(q.options)},
                               {"requests", {q.first_requests, q.most_requests}},
                               {"seeds", q.seeds}};
  asked["files"] = described_files(input_files_of(q));
  nlohmann::ordered_json out = manifest_head(kCapacityFormat);
  out["question"] = std::move(asked);
  return document_text(out);
}

CapacityPlan plan_capacity(const CapacityRequest& request, const CapacityControl& control) {
  CapacityPlan plan = request.plan;
  answer_capacity(plan, request.question, control);
  if (plan.feasible) {
    const std::vector<CapacityPool>& pools = plan.study.options[plan.order.front()].pools;
    const std::string& policy = pools.front().design.policy;
    const Scenario scenario = read_scenario(capacity_scenario(request.question, pools), {policy});
    plan.warnings = all_warnings(scenario);
    for (const InstancePool& pool : pools_of(scenario)) {
      const bool in_place = scenario.model.dense() || policy == experts_in_order().name;
      const std::string wrong(in_place ? "" : moved_experts_warning(pool));
      if (!wrong.empty() && std::ranges::find(plan.warnings, wrong) == plan.warnings.end()) {
        plan.warnings.push_back(wrong);
      }
    }
  }
  if (control.store != nullptr) {
    control.store->finish();
  }
  return plan;
}

}  // namespace epsim
