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

// Mean over the seeds that were searched; not defined without any.
template <class Figure>
double mean_over_seeds(const std::vector<GoodputSearch>& searches, Figure figure) {
  double sum = 0;
  for (const GoodputSearch& search : searches) {
    sum += figure(search);
  }
  return ratio(sum, static_cast<double>(searches.size()));
}

void write_near_knee(CsvTable& csv, const std::optional<NearKnee>& near) {
  const NearKnee run = near.value_or(NearKnee{});
  const auto number = [&](double value) { csv.number(near ? value : kUndefined); };
  number(run.rate);
  number(run.itl_mean_s * kMilli);
  number(run.decode_step_s * kMilli);
  number(run.balancedness);
  for (const double share : run.part_share) {
    number(share);
  }
  number(run.kv_full_share);
  number(run.extrapolated_share);
}

void write_saturated(CsvTable& csv, const std::optional<Saturated>& run) {
  if (!run) {
    csv.empty().empty().empty();
    return;
  }
  csv.number(run->kv_wait_share).number(run->exchange_share).text(run->wait_over_exchange() > 1 ? "kv" : "wire");
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
        const LayerSkew& skew = setup.skew[l];
        csv.text(name).text(policy).integer(skew.number).number(skew.hottest).number(skew.top2_share);
        csv.number(found.planned[l]).end_row();
      }
    }
  }
}

void write_setup_gains_csv(std::ostream& out, const CraftEvidence& evidence) {
  CsvTable csv(out, {"setup", "layer", "layer_copies", "balancedness_gain"});
  for (const auto& [name, setup] : evidence) {
    for (std::size_t l = 0; l < setup.skew.size(); ++l) {
      for (std::size_t c = 0; c < setup.gains.counts.size(); ++c) {
        csv.text(name).integer(setup.skew[l].number).integer(setup.gains.counts[c]);
        csv.number(setup.gains.gain[c][l]).end_row();
      }
    }
  }
}

void write_fixed_rates_csv(std::ostream& out, const CraftEvidence& evidence) {
  CsvTable csv(out, {"setup", "policy", "lowest_knee_share", "offered_requests_per_s", "ttft_mean_ms"});
  for (const auto& [name, setup] : evidence) {
    for (const auto& [policy, found] : setup.policies) {
      for (const FixedRate& at : found.fixed) {
        csv.text(name).text(policy).number(at.share).number(at.rate).number(at.ttft_mean_s * kMilli).end_row();
      }
    }
  }
}

}  // namespace epsim
