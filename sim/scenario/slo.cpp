#include "sim/scenario/slo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/quantity.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim {
namespace {

constexpr std::string_view kMetrics[] = {"ttft", "tpot", "e2e"};
constexpr std::string_view kStats[] = {"each", "mean", "p50", "p90", "p95", "p99"};
constexpr double kShares[] = {0, 0, 0.50, 0.10, 0.05, 0.01};

// One "NAME<VALUE" of the list, cut at its sign.
struct Words {
  std::string metric, stat, sign, value;
};

Words words_of(const std::string& term) {
  const std::size_t at = term.find_first_of("<>=");
  refuse_if(at == std::string::npos, "slo",
            fmt::format("'{}' has no bound; write ttft<2s, ttft.p99<2s or attainment>=0.99.", term));
  const std::size_t end = term.find_first_not_of("<>=", at);
  const std::string name = term.substr(0, at);
  const std::size_t dot = name.find('.');
  return {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1), term.substr(at, end - at),
          end == std::string::npos ? "" : term.substr(end)};
}

LatencyMetric metric_of(const std::string& name) {
  refuse_if(name == "itl", "slo",
            "single gaps between tokens (itl) cannot be bounded; tpot bounds a request's mean gap.");
  const auto* found = std::find(std::begin(kMetrics), std::end(kMetrics), name);
  refuse_if(found == std::end(kMetrics), "slo", unknown_name("latency", name, {"ttft", "tpot", "e2e", "attainment"}));
  return static_cast<LatencyMetric>(found - kMetrics);
}

LatencyStat stat_of(const std::string& term, const std::string& name) {
  const auto* found = std::find(std::begin(kStats) + 1, std::end(kStats), name);
  if (name.empty() && term.find('.') == std::string::npos) {
    return LatencyStat::kEach;
  }
  refuse_if(found == std::end(kStats), "slo", unknown_name("statistic", name, {"mean", "p50", "p90", "p95", "p99"}));
  return static_cast<LatencyStat>(found - kStats);
}

double attainment_of(const Words& words) {
  const double value = number_from<double>(words.value).value_or(0);
  refuse_if(
      !(value > 0 && value < 1), "slo",
      fmt::format("attainment is a share of the requests above 0 and below 1, as in attainment>=0.99; '{}' is not.",
                  words.value));
  refuse_if(words.sign != ">=" && words.sign != "=" && words.sign != ">", "slo",
            "attainment is a lower bound: write attainment>=0.99.");
  return value;
}

SloTerm term_of(const std::string& text, const Words& words) {
  SloTerm out{metric_of(words.metric), stat_of(text.substr(0, text.find_first_of("<>=")), words.stat), {}};
  refuse_if(words.sign != "<" && words.sign != "<=" && words.sign != "=", "slo",
            fmt::format("{} is an upper bound: write {}<2s.", words.metric, words.metric));
  std::string problem;
  const std::optional<double> bound = parse_quantity(words.value, "time", problem);
  refuse_if(!bound, "slo", problem);
  refuse_if(!(*bound > 0) || !std::isfinite(*bound), "slo", "a bound must be positive.");
  out.bound = Seconds{*bound};
  return out;
}

}  // namespace

double SloTerm::allowed_share() const { return kShares[static_cast<std::size_t>(stat)]; }

bool Slo::per_request() const {
  return std::any_of(terms.begin(), terms.end(), [](const SloTerm& t) { return t.stat == LatencyStat::kEach; });
}

std::string_view name_of(LatencyMetric metric) { return kMetrics[static_cast<std::size_t>(metric)]; }
std::string_view name_of(LatencyStat stat) { return kStats[static_cast<std::size_t>(stat)]; }

std::string name_of(const SloTerm& term) {
  const double s = term.bound.count();
  return fmt::format("{}{}{}<{}", name_of(term.metric), term.stat == LatencyStat::kEach ? "" : ".",
                     term.stat == LatencyStat::kEach ? "" : name_of(term.stat),
                     s < 1 ? fmt::format("{:g}ms", s * 1e3) : fmt::format("{:g}s", s));
}

std::string name_of(const Slo& slo) {
  std::vector<std::string> out = mapped(slo.terms, [](const SloTerm& term) { return name_of(term); });
  if (slo.per_request()) {
    out.push_back(fmt::format("attainment>={:g}", slo.attainment));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

Slo parse_slo(const std::string& text) {
  Slo slo;
  bool attainment = false;
  std::istringstream in(text);
  for (std::string term; std::getline(in, term, ',');) {
    term.erase(std::remove(term.begin(), term.end(), ' '), term.end());
    if (term.empty()) {
      continue;
    }
    const Words words = words_of(term);
    if (words.metric == "attainment" && words.stat.empty()) {
      refuse_if(attainment, "slo", "attainment is given twice.");
      slo.attainment = attainment_of(words);
      attainment = true;
      continue;
    }
    const SloTerm next = term_of(term, words);
    const bool known = std::any_of(slo.terms.begin(), slo.terms.end(),
                                   [&](const SloTerm& t) { return t.metric == next.metric && t.stat == next.stat; });
    refuse_if(
        known, "slo",
        fmt::format("'{}' bounds what another term bounds: the same latency and statistic is given twice.", term));
    slo.terms.push_back(next);
  }
  refuse_if(!slo.any(), "slo", "name at least one latency and its bound, as in ttft.p99<2s.");
  refuse_if(
      attainment && !slo.per_request(), "slo",
      "attainment is the share of requests that meet the bounds of each request, and there are none; write ttft<2s "
      "for such a bound (ttft.p99<2s bounds a percentile).");
  return slo;
}

}  // namespace epsim
