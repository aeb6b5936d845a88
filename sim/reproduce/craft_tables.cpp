#include "sim/reproduce/craft_tables.h"

#include <array>
#include <numeric>
#include <string>

#include "sim/domain/step.h"
#include "sim/report/csv_table.h"
#include "sim/report/format.h"

namespace epsim {
namespace {

constexpr double kMilli = 1e3;

// Mean over seeds; not defined without any.
template <class Run, class Figure>
double mean_over_seeds(const std::vector<Run>& by_seed, Figure figure) {
  double sum = 0;
  for (const Run& run : by_seed) {
    sum += figure(run);
  }
  return ratio(sum, static_cast<double>(by_seed.size()));
}

void write_near_knee(CsvTable& csv, const std::vector<NearKnee>& by_seed) {
  const auto mean = [&](auto figure) { csv.number(mean_over_seeds(by_seed, figure)); };
  mean([](const NearKnee& run) { return run.rate; });
  mean([](const NearKnee& run) { return run.itl_mean_s * kMilli; });
  mean([](const NearKnee& run) { return run.decode_step_s * kMilli; });
  mean([](const NearKnee& run) { return run.balancedness; });
  for (std::size_t p = 0; p < kLayerParts; ++p) {
    mean([p](const NearKnee& run) { return run.part_share[p]; });
  }
  mean([](const NearKnee& run) { return run.kv_full_share; });
  mean([](const NearKnee& run) { return run.extrapolated_share; });
}

void write_saturated(CsvTable& csv, const std::vector<Saturated>& by_seed) {
  if (by_seed.empty()) {
    csv.empty().empty().empty();
    return;
  }
  const double kv = mean_over_seeds(by_seed, [](const Saturated& run) { return run.kv_wait_share; });
  const double exchange = mean_over_seeds(by_seed, [](const Saturated& run) { return run.exchange_share; });
  csv.number(kv).number(exchange).text(kv > exchange ? "kv" : "wire");
}

}  // namespace

void write_setups_csv(std::ostream& out, const CraftEvidence& evidence) {
  std::vector<std::string> names{"setup",
                                 "policy",
                                 "gpus",
                                 "copies_per_gpu",
                                 "kv_lost_to_copies_share",
                                 "kv_pool_gib_per_gpu",
                                 "balancedness_planned",
                                 "seeds",
                                 "knee_requests_per_s",
                                 "saturation_requests_per_s",
                                 "near_knee_requests_per_s",
                                 "itl_mean_ms",
                                 "decode_step_mean_ms",
                                 "balancedness_mean"};
  for (const std::string_view part : kLayerPartNames) {
    names.push_back(std::string(part) + "_share");
  }
  names.insert(names.end(), {"kv_full_time_share", "extrapolated_share", "saturated_kv_wait_share",
                             "saturated_exchange_share", "bound_by"});
  CsvTable csv(out, std::vector<std::string_view>(names.begin(), names.end()));
  for (const auto& [name, setup] : evidence) {
    for (const auto& [policy, found] : setup.policies) {
      csv.text(name).text(policy).integer(setup.gpus).integer(found.copies_per_gpu);
      csv.number(found.kv_lost).number(found.kv_pool_gib);
      csv.number(ratio(std::accumulate(found.planned.begin(), found.planned.end(), 0.0),
                       static_cast<double>(found.planned.size())));
      csv.integer(std::ssize(found.searches));
      csv.number(mean_over_seeds(found.searches, [](const GoodputSearch& s) { return s.knee.rate; }));
      csv.number(mean_over_seeds(found.searches, [](const GoodputSearch& s) { return s.saturation; }));
      write_near_knee(csv, found.near_knee);
      write_saturated(csv, found.saturated);
      csv.end_row();
    }
  }
}

void write_setup_layers_csv(std::ostream& out, const CraftEvidence& evidence) {
  CsvTable csv(out, {"setup", "policy", "layer", "hottest_over_mean", "top2_share", "planned_balancedness"});
  for (const auto& [name, setup] : evidence) {
    for (const auto& [policy, found] : setup.policies) {
      for (std::size_t l = 0; l < found.planned.size(); ++l) {
        const LayerPopularity& skew = setup.skew[l];
        csv.text(name).text(policy).integer(skew.number).number(skew.hottest).number(skew.top2_share);
        csv.number(found.planned[l]).end_row();
      }
    }
  }
}

void write_setup_gains_csv(std::ostream& out, const CraftEvidence& evidence) {
  CsvTable csv(out, {"setup", "layer", "layer_placement", "layer_copies", "layer_balancedness", "balancedness_gain"});
  for (const auto& [name, setup] : evidence) {
    for (std::size_t l = 0; l < setup.skew.size(); ++l) {
      const auto start = [&](const char* placement, int copies, double balancedness) -> CsvTable& {
        return csv.text(name).integer(setup.skew[l].number).text(placement).integer(copies).number(balancedness);
      };
      const double base = setup.gains.base[l];
      start("in_order", 0, setup.in_order[l]).empty().end_row();
      start("packed", 0, base).number(0).end_row();
      for (std::size_t c = 0; c < setup.gains.counts.size(); ++c) {
        const double gain = setup.gains.gain[c][l];
        start("packed", setup.gains.counts[c], base + gain).number(gain).end_row();
      }
    }
  }
}

void write_fixed_rates_csv(std::ostream& out, const CraftEvidence& evidence) {
  CsvTable csv(out, {"setup", "policy", "lowest_knee_share", "offered_requests_per_s", "ttft_mean_ms"});
  for (const auto& [name, setup] : evidence) {
    for (const auto& [policy, found] : setup.policies) {
      if (!found.fixed.empty()) {
        csv.text(name).text(policy).number(kNearSaturation);
        csv.number(mean_over_seeds(found.fixed, [](const FixedRate& run) { return run.rate; }));
        csv.number(mean_over_seeds(found.fixed, [](const FixedRate& run) { return run.ttft_mean_s * kMilli; }));
        csv.end_row();
      }
    }
  }
}

}  // namespace epsim
