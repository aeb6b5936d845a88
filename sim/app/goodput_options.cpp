#include "sim/app/goodput_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/app/command_line.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/study/goodput.h"

namespace epsim::app {

namespace {

double parsed_number(const std::string& option, const std::string& text) {
  const std::optional<double> value = number_from<double>(text);
  return value ? *value : throw InputError({"", 0, option}, fmt::format("'{}' is not a number.", text));
}

std::vector<double> numbers_of(const po::variables_map& values, const std::string& option) {
  return mapped(option_list(values, option, "numbers"),
                [&](const std::string& word) { return parsed_number(option, word); });
}

}  // namespace

void refuse_knee_options(const po::variables_map& values, const std::string& slo) {
  for (const char* of_knee : {"k", "sensitivity"}) {
    refuse_if(values.count(of_knee) > 0, of_knee,
              fmt::format("this option is for the knee, which {} replaces; leave one out.", slo));
  }
}

void add_goodput_options(po::options_description& options) {
  const auto word = [] { return po::value<std::string>(); };
  options.add_options()("k", word(), "the knee is where mean TTFT is k times that of an idle instance; default 5")(
      "slo", word(),
      "search for the highest rate at which this holds, instead of the knee: 'ttft.p99<2s,tpot.p99<50ms,e2e.mean<30s' "
      "bounds statistics (mean, p50, p90, p95, p99); 'ttft<2s,tpot<50ms,attainment>=0.99' bounds each request, and the "
      "share of requests that must meet all such bounds (0.99 unless given). ttft: arrival to first token; tpot: "
      "a request's mean gap between tokens; e2e: arrival to last token. Quote it: < is the shell's")(
      "tolerance", word(), "relative width at which the search ends; default 0.02")(
      "sensitivity", word(), "other values of k to report; default 1.5,2,2.5,4,5,8,16")(
      "rates", word(), "requests/s to probe besides those that the search chooses, as in 2,2.5,3")(
      "warmup", word(),
      "share of the requests, by arrival, that is not counted at the start, at least twice as many as are in the "
      "system; default 0.1")("drain", word(), "likewise at the end; default 0.1")(
      "min-completed", word(), "completed / offered rate that an acceptable rate must reach; default 0.95")(
      "max-drift", word(), "growth between the halves of a run that still counts as steady; default 0.25")(
      "min-requests-ratio", word(),
      "requests of the trace for each one in the system at an acceptable rate; default 20")(
      "max-requests", word(),
      "with --slo: the most requests that a rate takes where fewer leave its verdict open; default 50000. Fewer end "
      "the "
      "search sooner, with a wider interval");
}

GoodputOptions read_goodput_options(const po::variables_map& values) {
  GoodputOptions o;
  const auto read = [&](const char* name, double& target) {
    if (values.count(name) > 0) {
      target = parsed_number(name, values[name].as<std::string>());
    }
  };
  read("k", o.k);
  read("tolerance", o.tolerance);
  read("min-completed", o.min_completed);
  read("warmup", o.warmup_share);
  read("drain", o.drain_share);
  read("max-drift", o.max_drift);
  read("min-requests-ratio", o.min_requests_ratio);
  if (values.count("max-requests") > 0) {
    const std::string text = values["max-requests"].as<std::string>();
    const std::optional<std::int64_t> count = number_from<std::int64_t>(text);
    refuse_if(!count || *count < 0, "max-requests", fmt::format("'{}' is not a number of requests.", text));
    o.most_requests = static_cast<std::size_t>(*count);
  }
  const auto read_list = [&](const char* name, std::vector<double>& target) {
    if (values.count(name) > 0) {
      target = numbers_of(values, name);
    }
  };
  read_list("sensitivity", o.sensitivity);
  read_list("rates", o.rates);
  if (values.count("slo") > 0) {
    refuse_knee_options(values, "--slo");
    o.slo = parse_slo(values["slo"].as<std::string>());
  }
  validate(o);
  return o;
}

}  // namespace epsim::app
