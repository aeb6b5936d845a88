// How wrong the link profiles are: every profile was made from half of the sizes of its tables, the others are
// predicted here. Bars: mean absolute error 10 % for NCCL in a node of 8, 12 % for EFA, 15 % for DeepEP; NCCL median 8
// % and 95th percentile 20 % (in a node), 12 % and 30 % (between nodes). Prints the table that
// models/hardware/README.md has.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "sim/core/units.h"
#include "tests/support/paths.h"
#include "traces/format/csv.h"

using namespace epsim;

namespace {

// What a table says about one collective: microseconds by size (buffer bytes, or tokens).
using Table = std::map<std::int64_t, double>;

struct FitErrors {
  std::vector<double> all;  // absolute, relative
  void add(double predicted, double measured) { all.push_back(std::abs(predicted / measured - 1.0)); }
  void add(const FitErrors& other) { all.insert(all.end(), other.all.begin(), other.all.end()); }
  double mean() const {
    double sum = 0;
    for (const double e : all) {
      sum += e;
    }
    return sum / static_cast<double>(all.size());
  }
  // The smallest error with at least that share of all at or below it.
  double quantile(double share) const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(at, 1) - 1];
  }
  void print(const std::string& link, const std::string& op, int gpus, const std::string& range) const {
    MESSAGE(fmt::format("| {} | {} | {} | {} | {} | {:.1f} | {:.1f} | {:.1f} |", link, op, gpus, range, all.size(),
                        mean() * 100, quantile(0.5) * 100, quantile(0.95) * 100));
  }
};

CsvReader open_csv(ByteInput& input) { return CsvReader(input); }

std::filesystem::path measured(const std::string& file) {
  return test::shared_dir() / "data" / "aiconfigurator" / file;
}

// Fastest of the repeats, as the profiles take it. message_size counts elements of 2 bytes.
Table nccl_table(const std::vector<std::string>& files, const std::string& op, int gpus) {
  Table out;
  for (const std::string& file : files) {
    ByteInput input(measured(file + "/nccl_perf.csv.gz"));
    CsvReader csv = open_csv(input);
    const std::size_t dtype = csv.column("nccl_dtype"), name = csv.column("op_name"), count = csv.column("num_gpus"),
                      size = csv.column("message_size"), ms = csv.column("latency");
    while (csv.next()) {
      if (csv.text(dtype) == "half" && csv.text(name) == op && csv.integer(count) == gpus) {
        const auto [at, is_new] = out.try_emplace(2 * csv.integer(size), csv.number(ms) * 1e3);
        at->second = std::min(at->second, csv.number(ms) * 1e3);
      }
    }
  }
  return out;
}

struct DeepEpRows {
  const char* file;
  bool low_latency;
  int nodes, experts, sms;
  int gpus_per_node = 8;
};

Table deep_ep_table(const DeepEpRows& rows, const std::string& direction) {
  ByteInput input(
      measured(std::string(rows.file) + "/wideep_deepep_" + (rows.low_latency ? "ll" : "normal") + "_perf.csv.gz"));
  CsvReader csv = open_csv(input);
  Table out;
  while (csv.next()) {
    const auto is = [&](const char* column, std::int64_t value) { return csv.integer(csv.column(column)) == value; };
    if (!is("hidden_size", 7168) || !is("num_topk", 8) || !is("num_experts", rows.experts) ||
        !is("node_num", rows.nodes) || (!rows.low_latency && !is("dispatch_sms", rows.sms))) {
      continue;
    }
    const auto us = [&](const char* what) { return csv.number(csv.column(direction + what)); };
    out[csv.integer(csv.column("num_token"))] =
        rows.low_latency ? us("_avg_t_us") : us("_transmit_us") + us("_notify_us");
  }
  return out;
}

const CollectiveCurve& curve_of(const LinkProfile& link, CollectiveKind kind, int gpus) {
  const auto at = std::find_if(link.curves.begin(), link.curves.end(),
                               [&](const CollectiveCurve& c) { return c.kind == kind && c.gpus == gpus; });
  REQUIRE(at != link.curves.end());
  return *at;
}

}  // namespace

TEST_CASE("NCCL inside a node: the sizes that the profiles were not made from") {
  struct Row {
    const char* link;
    std::vector<std::string> files;
  };
  for (const Row& r : {Row{"nvlink3-a100", {"a100_sxm/comm/nccl/2.27.3"}},
                       Row{"nvlink4-h100", {"h100_sxm/comm/nccl/2.27.3", "h100_sxm/comm/nccl/2.29.2"}},
                       Row{"nvlink4-h200", {"h200_sxm/comm/nccl/2.26.2", "h200_sxm/comm/nccl/2.29.2"}}}) {
    const LinkProfile link = link_profile(r.link, "");
    FitErrors of_link;
    for (const CollectiveKind kind : {CollectiveKind::kAllToAll, CollectiveKind::kAllGather,
                                      CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
      const std::string name(kCollectiveNames[static_cast<std::size_t>(kind)]);
      for (const int gpus : {8, 4, 2}) {
        FitErrors errors;
        const Table table = nccl_table(r.files, name == "all_to_all" ? "alltoall" : name, gpus);
        REQUIRE(table.size() == 21);  // 512 B .. 512 MiB
        const CollectiveCurve& curve = curve_of(link, kind, gpus);
        for (const auto& [size, us] : table) {
          const auto bytes = static_cast<double>(size);
          const auto known = std::any_of(curve.points.begin(), curve.points.end(),
                                         [&](const auto& p) { return p.bytes.count() == bytes; });
          if (!known && bytes >= 8192) {
            const Seconds wire = Bytes(bytes) * curve.wire_share / curve.link_rate;
            const Price price = link.time(kind, gpus, wire);
            CHECK(price.origin == Origin::kInterpolated);
            errors.add(to_us(price.time), us);
          }
        }
        CHECK(errors.all.size() == 8);  // every other size from 16 KiB to 256 MiB
        errors.print(r.link, name, gpus, "8 KiB..512 MiB");
        CHECK((errors.mean() <= 0.10 || gpus != 8));
        of_link.add(errors);
      }
    }
    of_link.print(r.link, "all four", 0, "8 KiB..512 MiB");
    CHECK(of_link.quantile(0.5) <= 0.08);
    CHECK(of_link.quantile(0.95) <= 0.20);
  }
}

TEST_CASE("DeepEP: the token counts that the profiles were not made from") {
  const char* multi = "h100_sxm/comm/sglang/0.5.6.post2";
  struct Row {
    const char* link;
    DeepEpRows rows;
  };
  FitErrors all;
  for (const Row& r :
       {Row{"nvlink4-h100", {multi, false, 1, 256, 20}}, Row{"nvlink4-h100", {multi, true, 1, 256, 0}},
        Row{"nvlink4-h200", {"h200_sxm/comm/sglang/0.5.12", false, 1, 256, 20}},
        Row{"nvlink4-h200", {"h200_sxm/comm/sglang/0.5.12", true, 1, 256, 0}},
        Row{"nvlink5-b200", {"b200_sxm/comm/sglang/0.5.12", false, 1, 256, 20}},
        Row{"nvlink5-b200", {"b200_sxm/comm/sglang/0.5.12", true, 1, 256, 0}},
        Row{"nvlink5-b300", {"b300_sxm/comm/sglang/0.5.12", false, 1, 256, 20}},
        Row{"nvlink5-b300", {"b300_sxm/comm/sglang/0.5.12", true, 1, 256, 0}},
        Row{"nvlink5-gb200", {"gb200/comm/sglang/0.5.12", false, 1, 256, 20, 4}},
        Row{"nvlink5-gb200", {"gb200/comm/sglang/0.5.12", true, 1, 256, 0, 4}},
        Row{"infiniband-ndr", {multi, false, 2, 256, 24}}, Row{"infiniband-ndr", {multi, false, 4, 256, 24}},
        Row{"infiniband-ndr", {multi, true, 2, 256, 0}}, Row{"infiniband-ndr", {multi, true, 4, 256, 0}},
        Row{"infiniband-ndr", {multi, true, 8, 256, 0}}}) {
    const LinkProfile link = link_profile(r.link, "");
    for (const bool combine : {false, true}) {
      const CollectiveKind kind =
          r.rows.low_latency
              ? (combine ? CollectiveKind::kDeepEpLowLatencyCombine : CollectiveKind::kDeepEpLowLatencyDispatch)
              : (combine ? CollectiveKind::kDeepEpCombine : CollectiveKind::kDeepEpDispatch);
      const int gpus = r.rows.gpus_per_node * r.rows.nodes;
      const CollectiveCurve& curve = curve_of(link, kind, gpus);
      const Table table = deep_ep_table(r.rows, combine ? "combine" : "dispatch");
      // Bytes per token, from any point of the curve: points lie at every other token count, from the second kept one
      // on.
      std::vector<std::int64_t> tokens;
      for (const auto& [count, us] : table) {
        tokens.push_back(count);
      }
      REQUIRE(curve.points.size() == (tokens.size() + 1) / 2);
      const double per_token = curve.points[1].wire.count() / static_cast<double>(tokens[2]);
      FitErrors errors;
      for (std::size_t i = 1; i < tokens.size(); i += 2) {
        const Price price = link.time(kind, gpus, Seconds(per_token * static_cast<double>(tokens[i])));
        errors.add(to_us(price.time), table.at(tokens[i]));
      }
      errors.print(r.link, std::string(kCollectiveNames[static_cast<std::size_t>(kind)]), gpus,
                   fmt::format("{}..{} tokens", tokens.front(), tokens.back()));
      CHECK(errors.mean() <= 0.15);
      all.add(errors);
    }
  }
  CHECK(all.quantile(0.5) <= 0.12);
  CHECK(all.quantile(0.95) <= 0.30);
}

// The only table of EFA all-to-alls is the profile itself, 7 sizes for each number of GPUs: every other one is left out
// and predicted from the rest.
TEST_CASE("EFA between p5 nodes: sizes predicted from every other size") {
  LinkProfile link = link_profile("efa-p5", "");
  FitErrors all;
  for (const int gpus : {16, 32, 64, 128, 256}) {
    const CollectiveCurve full = curve_of(link, CollectiveKind::kAllToAll, gpus);
    CollectiveCurve half = full;
    half.points.clear();
    for (std::size_t i = 0; i < full.points.size(); ++i) {
      if (i == 0 || i % 2 == 1) {  // the base, then 32, 128, 512, 2048 MiB
        half.points.push_back(full.points[i]);
      }
    }
    REQUIRE(half.points.size() == 5);
    FitErrors errors;
    for (std::size_t i = 2; i < full.points.size(); i += 2) {
      errors.add(half.time(full.points[i].wire).time.count(), full.points[i].time.count());
    }
    errors.print("efa-p5", "all_to_all", gpus, "32 MiB..2 GiB");
    CHECK(errors.mean() <= 0.12);
    all.add(errors);
  }
  all.print("efa-p5", "all_to_all", 0, "32 MiB..2 GiB");
  CHECK(all.quantile(0.5) <= 0.12);
  CHECK(all.quantile(0.95) <= 0.30);
}

// Four of five counts of GPUs predict the fifth, at every size: what the interpolation between counts is worth.
TEST_CASE("EFA between p5 nodes: a number of GPUs predicted from its neighbours") {
  const LinkProfile link = link_profile("efa-p5", "");
  for (const int gpus : {32, 64, 128}) {
    LinkProfile others = link;
    std::erase_if(others.curves, [&](const CollectiveCurve& c) { return c.gpus == gpus; });
    FitErrors errors;
    for (std::size_t i = 1; i < 8; ++i) {
      const CollectiveCurve::Point& point = curve_of(link, CollectiveKind::kAllToAll, gpus).points[i];
      const Price price = others.time(CollectiveKind::kAllToAll, gpus, point.wire);
      if (price.origin == Origin::kInterpolated) {  // the largest lies beyond what fewer GPUs were measured at
        errors.add(price.time.count(), point.time.count());
      }
    }
    errors.print("efa-p5", "all_to_all, from other counts", gpus, "32 MiB..2 GiB");
    CHECK(errors.mean() <= 0.12);
  }
}
