#include "calibration/link_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr std::size_t kMinSizes = 5;
constexpr std::string_view kSkewed = "nccl_all_to_allv";

// A collective's points over so many GPUs, by growing size.
struct Series {
  std::string op;
  int gpus = 0, nodes = 1;
  std::vector<double> bytes, time_s;
};

std::optional<CollectiveKind> kind_of(std::string_view op) {
  for (std::size_t k = 0; k < std::size(kCollectiveNames); ++k) {
    if (op == fmt::format("nccl_{}", kCollectiveNames[k])) {
      return static_cast<CollectiveKind>(k);
    }
  }
  return std::nullopt;
}

// The series of a tier, operators in the file's order.
std::vector<Series> series_of(const PointFile& points, bool inter) {
  std::vector<Series> out;
  for (const PointTable& table : points.tables) {
    if (!kind_of(table.op) && table.op != kSkewed) {
      continue;
    }
    const auto &bytes = table.values_of("bytes"), &ranks = table.values_of("ranks"), &nodes = table.values_of("nodes");
    std::map<std::pair<int, int>, std::map<double, double>> by_shape;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if ((nodes[i] > 1) == inter) {
        by_shape[{static_cast<int>(ranks[i]), static_cast<int>(nodes[i])}][bytes[i]] = table.time_s[i];
      }
    }
    for (const auto& [shape, times] : by_shape) {
      Series series{table.op, shape.first, shape.second, {}, {}};
      for (const auto& [size, time] : times) {
        series.bytes.push_back(size);
        series.time_s.push_back(time);
      }
      out.push_back(std::move(series));
    }
  }
  return out;
}

int most_gpus_per_node(const std::vector<Series>& all) {
  int most = 0;
  for (const Series& s : all) {
    most = std::max(most, s.gpus / s.nodes);
  }
  return most;
}

// Bytes that a GPU's share of the link carries per byte of buffer (CollectiveCurve::wire_share). Between nodes a ring
// takes what is gathered or reduced through each node once (an all-reduce twice), over all of its GPUs' shares.
double wire_share(CollectiveKind kind, int gpus, int nodes) {
  const double passes = kind == CollectiveKind::kAllReduce ? 2 : 1;
  if (nodes == 1) {
    return passes * (gpus - 1) / gpus;
  }
  const double others = (nodes - 1.0) / nodes;
  return kind == CollectiveKind::kAllToAll ? others : passes * others * nodes / gpus;
}

// The same of a skewed all-to-allv's busiest receiver, the first: it gets 1 / (1 + 1/2 + ... + 1/n) of every sender.
double skewed_wire_share(int gpus, int nodes) {
  double sum = 0;
  for (int r = 1; r <= gpus; ++r) {
    sum += 1.0 / r;
  }
  return (gpus - (nodes == 1 ? 1 : gpus / nodes)) / sum;
}

// Pools neighbours that fall until none does (isotonic regression; Barlow et al. 1972), on logarithms.
void make_growing(std::vector<double>& times) {
  std::vector<std::pair<double, std::size_t>> pools;  // mean logarithm, members
  for (const double t : times) {
    pools.emplace_back(std::log(t), 1);
    while (pools.size() > 1 && pools[pools.size() - 2].first > pools.back().first) {
      const auto [mean, members] = pools.back();
      pools.pop_back();
      auto& into = pools.back();
      into.first = (into.first * static_cast<double>(into.second) + mean * static_cast<double>(members)) /
                   static_cast<double>(into.second + members);
      into.second += members;
    }
  }
  std::size_t i = 0;
  for (const auto& [mean, members] : pools) {
    for (std::size_t m = 0; m < members; ++m) {
      times[i++] = std::exp(mean);
    }
  }
}

CollectiveCurve curve_of(const Series& series, CollectiveKind kind, double rate) {
  CollectiveCurve out;
  out.kind = kind;
  out.gpus = series.gpus;
  out.wire_share = wire_share(kind, series.gpus, series.nodes);
  out.link_rate = BytesPerSecond(rate);
  std::vector<double> bytes, times;
  std::vector<std::size_t> held_out;
  for (std::size_t i = 0; i < series.bytes.size(); ++i) {
    const std::array parameters{series.bytes[i], 1.0 * series.gpus, 1.0 * series.nodes};
    const bool inner = i > 0 && i + 1 < series.bytes.size();  // the curve keeps both ends
    if (inner && is_held_out(parameters)) {
      held_out.push_back(i);
      continue;
    }
    bytes.push_back(series.bytes[i]);
    times.push_back(series.time_s[i]);
  }
  make_growing(times);
  out.points.push_back({Bytes(0), Seconds(times.front()), Seconds(0)});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Bytes size(bytes[i]);
    out.points.push_back({size, Seconds(times[i]), size * out.wire_share / out.link_rate});
  }
  std::vector<double> errors;
  for (const std::size_t i : held_out) {
    const Price price = out.time(Bytes(series.bytes[i]) * out.wire_share / out.link_rate);
    errors.push_back(std::fabs(price.time.count() / series.time_s[i] - 1));
  }
  if (!errors.empty()) {
    out.held_out = summarise_errors(std::move(errors));
  }
  return out;
}

std::optional<FittedLink> fit_tier(const PointFile& points, bool inter, double rate,
                                   const std::function<void(const std::string&)>& note) {
  const std::vector<Series> all = series_of(points, inter);
  const std::string where = inter ? "links between nodes" : "links inside a node";
  if (all.empty()) {
    return std::nullopt;
  }
  if (rate <= 0) {
    note(fmt::format("{}: not fitted: state --{}, one GPU's share in each direction by the data sheet", where,
                     inter ? "nic-rate" : "link-rate"));
    return std::nullopt;
  }
  FittedLink out{inter, most_gpus_per_node(all), {}, {}};
  out.profile.name = points.provenance.machine + (inter ? ", between nodes" : ", inside a node");
  out.source = fmt::format("epsim-calibrate on {}, {}, NCCL {}", points.provenance.gpu, points.provenance.date,
                           points.provenance.nccl);
  for (const Series& series : all) {
    const std::optional<CollectiveKind> kind = kind_of(series.op);
    const bool partly = inter && series.gpus / series.nodes < out.gpus_per_node;
    if (!kind || partly) {
      continue;
    }
    if (series.bytes.size() < kMinSizes) {
      note(fmt::format("{} over {} GPUs: not fitted: {} sizes, at least {} are needed", series.op, series.gpus,
                       series.bytes.size(), kMinSizes));
      continue;
    }
    out.profile.curves.push_back(curve_of(series, *kind, rate));
  }
  const auto exchange = std::find_if(out.profile.curves.rbegin(), out.profile.curves.rend(),
                                     [](const auto& c) { return c.kind == CollectiveKind::kAllToAll; });
  if (exchange == out.profile.curves.rend()) {
    note(where + ": not fitted: an all-to-all is needed");
    return std::nullopt;
  }
  out.profile.base_latency = {exchange->points.front().time.count(), Origin::kMeasured, out.source};
  return out;
}

}  // namespace

LinkFit fit_link(std::span<const double> bytes, std::span<const double> time_s, double bytes_per_s) {
  EPSIM_CHECK(bytes.size() == time_s.size() && bytes.size() >= 2, "a link is fitted to at least two messages");
  std::vector<double> a, b;
  std::vector<std::size_t> held_out;
  const bool enough = bytes.size() >= 10;  // with fewer, all take part, and the error is that of the fit
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (enough && is_held_out(bytes.subspan(i, 1))) {
      held_out.push_back(i);
      continue;
    }
    a.insert(a.end(), {1.0 / time_s[i], bytes[i] / bytes_per_s / time_s[i]});
    b.push_back(1.0);
  }
  const std::vector<double> x = non_negative_least_squares(a, b, 2);
  LinkFit out;
  out.alpha_s = x[0];
  out.efficiency = x[1] > 0 ? 1 / x[1] : 0;
  std::vector<double> errors;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool counts = held_out.empty() || std::find(held_out.begin(), held_out.end(), i) != held_out.end();
    if (counts) {
      errors.push_back(std::fabs((x[0] + x[1] * bytes[i] / bytes_per_s) / time_s[i] - 1));
    }
  }
  out.held_out = summarise_errors(std::move(errors));
  return out;
}

std::vector<FittedLink> fit_links(const PointFile& points, const LinkRates& rates,
                                  const std::function<void(const std::string&)>& note) {
  std::vector<FittedLink> out;
  for (const bool inter : {false, true}) {
    const double rate = inter ? rates.inter_bytes_per_s : rates.intra_bytes_per_s;
    if (std::optional<FittedLink> link = fit_tier(points, inter, rate, note)) {
      out.push_back(*std::move(link));
    }
  }
  return out;
}

std::string link_yaml(const FittedLink& link) {
  std::string out = "# Fitted by `epsim calibrate fit`; schema: models/hardware/README.md. Do not edit: fit again.\n";
  out += link.inter ? fmt::format("tier: inter\ngpus_per_node: {}\n", link.gpus_per_node) : "tier: intra\n";
  out += fmt::format("link_rate: {:.10g}GB/s\n", link.profile.curves.front().link_rate.count() / 1e9);
  out +=
      fmt::format("base_latency:\n  value: {:.6g}\n  origin: measured\n  source: smallest all-to-all of the points\n",
                  link.profile.base_latency.value * 1e6);
  out += fmt::format("source: \"{}\"\ncurves:\n", link.source);
  for (const CollectiveCurve& curve : link.profile.curves) {
    std::string mib, us;
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      const char* comma = i > 1 ? ", " : "";
      mib += fmt::format("{}{:.10g}", comma, curve.points[i].bytes.count() / kMiB);
      us += fmt::format("{}{:.6g}", comma, curve.points[i].time.count() * 1e6);
    }
    out += fmt::format("  - kind: {}\n    gpus: {}\n    wire_share: {:.10g}\n    base_us: {:.6g}\n",
                       kCollectiveNames[static_cast<std::size_t>(curve.kind)], curve.gpus, curve.wire_share,
                       curve.points.front().time.count() * 1e6);
    out += fmt::format("    mib: [{}]\n    us: [{}]\n", mib, us);
    if (curve.held_out) {
      const ErrorSummary& e = *curve.held_out;
      out += fmt::format("    held_out: {{points: {}, median: {:.4f}, p95: {:.4f}, worst: {:.4f}}}\n", e.points,
                         e.median, e.p95, e.worst);
    }
  }
  return out;
}

std::vector<ComparedErrors> compare_link(const LinkProfile& link, bool inter, const PointFile& points) {
  const double rate = link.curves.front().link_rate.count();
  std::vector<ComparedErrors> out;
  const std::vector<Series> all = series_of(points, inter);
  const int each = most_gpus_per_node(all);
  for (const Series& series : all) {
    if (inter && series.gpus / series.nodes < each) {
      continue;
    }
    const CollectiveKind kind = kind_of(series.op).value_or(CollectiveKind::kAllToAll);
    const double share = series.op == kSkewed ? skewed_wire_share(series.gpus, series.nodes)
                                              : wire_share(kind, series.gpus, series.nodes);
    std::vector<double> errors;
    double outside = 0;
    for (std::size_t i = 0; i < series.bytes.size(); ++i) {
      const Price price = link.time(kind, series.gpus, Seconds(series.bytes[i] * share / rate));
      errors.push_back(std::fabs(price.time.count() / series.time_s[i] - 1));
      outside += price.origin == Origin::kExtrapolated ? 1 : 0;
    }
    out.push_back({fmt::format("{}, {} GPUs", series.op, series.gpus), summarise_errors(errors),
                   outside / static_cast<double>(series.bytes.size())});
  }
  return out;
}

std::string link_text(const LinkProfile& link) {
  std::string out = fmt::format("links: {}\nrelative error on held-out sizes, %", link.name);
  out += fmt::format("{:>12} {:>6} {:>6} {:>7} | {:>10} {:>10}\n", "median", "p95", "worst", "points", "latency us",
                     "of rate %");
  for (const CollectiveCurve& curve : link.curves) {
    std::vector<double> wire, times;
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
      wire.push_back(curve.points[i].bytes.count() * curve.wire_share);
      times.push_back(curve.points[i].time.count());
    }
    const std::string errors =
        curve.held_out ? fmt::format("{:>6.1f} {:>6.1f} {:>6.1f} {:>7}", curve.held_out->median * 100,
                                     curve.held_out->p95 * 100, curve.held_out->worst * 100, curve.held_out->points)
                       : fmt::format("{:>6} {:>6} {:>6} {:>7}", "-", "-", "-", "-");
    const std::string sum = wire.size() >= 2 ? [&] {
      const LinkFit fit = fit_link(wire, times, curve.link_rate.count());
      return fmt::format("{:>10.1f} {:>10.1f}", fit.alpha_s * 1e6, fit.efficiency * 100);
    }()
                                             : "";
    const std::string_view name = kCollectiveNames[static_cast<std::size_t>(curve.kind)];
    const std::string whose = curve.engines.empty() ? "" : ", " + curve.engines.front();
    out += fmt::format("  {:<38} {} | {}\n", fmt::format("{}, {} GPUs{}", name, curve.gpus, whose), errors, sum);
  }
  return out;
}

std::string link_errors_csv(const FittedLink& link) {
  std::string out;
  for (const CollectiveCurve& curve : link.profile.curves) {
    const ErrorSummary e = curve.held_out.value_or(ErrorSummary{});
    out += fmt::format("nccl_{},{} GPUs {},{},{:.4f},{:.4f},{:.4f},0,0,0\n",
                       kCollectiveNames[static_cast<std::size_t>(curve.kind)], curve.gpus,
                       link.inter ? "of several nodes" : "of one node", e.points, e.median, e.p95, e.worst);
  }
  return out;
}

}  // namespace epsim
