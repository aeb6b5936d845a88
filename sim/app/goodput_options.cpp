#include "sim/app/goodput_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/serving/goodput.h"

namespace epsim::app {

namespace po = boost::program_options;

namespace {

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError({"", 0, option}, fmt::format("'{}' is not a number.", text));
  }
  return value;
}

std::vector<double> numbers_of(const std::string& option, const std::string& text) {
  std::vector<double> out;
  for (const std::string& word : split_list(text)) {
    out.push_back(number_of(option, word));
  }
  return out;
}

// "ttft=2s,itl=100ms,e2e=30s"; each at most once.
SloBounds slo_of(const std::string& text) {
  SloBounds slo;
  const std::vector<std::string> names = {"ttft", "itl", "e2e"};
  std::optional<Seconds>* const bounds[] = {&slo.ttft, &slo.itl, &slo.e2e};
  for (const std::string& word : split_list(text)) {
    const std::size_t at = word.find('=');
    const std::string name = word.substr(0, at);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw InputError({"", 0, "slo"}, unknown_name("bound", name, names));
    }
    std::optional<Seconds>& bound = *bounds[found - names.begin()];
    std::string problem = "a bound is written as in ttft=2s.";
    const auto value = at == std::string::npos ? std::nullopt : parse_quantity(word.substr(at + 1), "time", problem);
    if (!value || bound) {
      throw InputError({"", 0, "slo"}, bound ? fmt::format("{} is given twice.", name) : problem);
    }
    bound = Seconds{*value};
  }
  return slo;
}

}  // namespace

void add_goodput_options(po::options_description& options) {
  const auto word = [] { return po::value<std::string>(); };
  options.add_options()("k", word(), "the knee is where mean TTFT is k times that of an idle instance; default 5")(
      "slo", word(), "bounds, as in ttft=2s,itl=100ms,e2e=60s; itl is a request's mean gap between tokens")(
      "tolerance", word(), "relative width at which the search for the knee ends; default 0.02")(
      "sensitivity", word(), "other values of k to report; default 1.5,2,2.5,4,5,8,16")(
      "rates", word(), "requests/s to probe besides those that the search chooses, as in 2,2.5,3")(
      "warmup", word(),
      "share of the requests, by arrival, that is not counted at the start, at least twice as many as are in the "
      "system; default 0.1")("drain", word(), "likewise at the end; default 0.1")(
      "min-completed", word(), "completed / offered rate that an acceptable rate must reach; default 0.95")(
      "max-drift", word(), "growth between the halves of a run that still counts as steady; default 0.25")(
      "min-requests-ratio", word(), "requests of the trace for each one in the system at the knee; default 20");
}

GoodputOptions read_goodput_options(const po::variables_map& values) {
  GoodputOptions o;
  const auto read = [&](const char* name, double& target) {
    if (values.count(name) > 0) {
      target = number_of(name, values[name].as<std::string>());
    }
  };
  read("k", o.k);
  read("tolerance", o.tolerance);
  read("min-completed", o.min_completed);
  read("warmup", o.warmup_share);
  read("drain", o.drain_share);
  read("max-drift", o.max_drift);
  read("min-requests-ratio", o.min_requests_ratio);
  const auto read_list = [&](const char* name, std::vector<double>& target) {
    if (values.count(name) > 0) {
      target = numbers_of(name, values[name].as<std::string>());
    }
  };
  read_list("sensitivity", o.sensitivity);
  read_list("rates", o.rates);
  if (values.count("slo") > 0) {
    o.slo = slo_of(values["slo"].as<std::string>());
  }
  validate(o);
  return o;
}

nlohmann::ordered_json goodput_options_json(const GoodputOptions& o) {
  using Json = nlohmann::ordered_json;
  const auto bound = [](const std::optional<Seconds>& b) { return b ? Json(b->count()) : Json(nullptr); };
  return {{"k", o.k},
          {"sensitivity", o.sensitivity},
          {"sensitivity_of_first_seed", o.sensitivity_of_first_seed},
          {"min_completed", o.min_completed},
          {"tolerance", o.tolerance},
          {"warmup_share", o.warmup_share},
          {"drain_share", o.drain_share},
          {"max_drift", o.max_drift},
          {"min_requests_ratio", o.min_requests_ratio},
          {"slo_ttft_s", bound(o.slo.ttft)},
          {"slo_itl_s", bound(o.slo.itl)},
          {"slo_e2e_s", bound(o.slo.e2e)},
          {"rates", o.rates}};
}

}  // namespace epsim::app
