// The network's models against simulators that share no code with them: 20 skewed exchanges of 8 nodes x 8 GPUs as ns-3
// moves their packets and as SimGrid shares links among their fluids (tests/crosscheck; docs/network-check.md has the
// table that this test holds the models to).
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "models/network/fabric_network.h"
#include "models/network/two_tier.h"
#include "tests/crosscheck/exchange_matrices.h"
#include "tests/models/clusters.h"
#include "tests/models/profiles.h"
#include "tests/support/paths.h"

namespace epsim::crosscheck_tests {
namespace {

using crosscheck::Exchange;
using crosscheck::kGpus;
using crosscheck::kGpusPerNode;

struct Measured {
  std::string name;
  double packets_us = 0, fluid_us = 0;
};

// A line: exchange;direct or relayed;ns-3's microseconds;SimGrid's.
std::vector<Measured> measured(const std::string& way) {
  std::vector<Measured> out;
  std::ifstream file(test::data_dir() / "exchange_times.csv");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, here, packets, fluid;
    std::getline(fields, name, ';');
    std::getline(fields, here, ';');
    std::getline(fields, packets, ';');
    std::getline(fields, fluid, ';');
    if (here == way) {
      out.push_back({name, std::stod(packets), std::stod(fluid)});
    }
  }
  return out;
}

ClusterSpec cluster() {
  ClusterSpec out = test::small_cluster(kGpus / kGpusPerNode);
  out.node.gpus = out.node.nics = kGpusPerNode;
  out.node.intra_rate = BytesPerSecond(1e15);  // the simulators know nothing of the inside of nodes
  out.node.nic_rate = BytesPerSecond(crosscheck::kNicRate);
  return out;
}

// A mix a GPU, so that fair_share has the exchange as sources and what each of them sends.
TrafficMatrix traffic_of(const Exchange& exchange) {
  const ClusterShape shape = shape_of(cluster());
  const auto lanes = std::make_shared<const SourceLanes>(common_lanes(shape));
  TrafficMatrix out;
  out.clear(shape, std::vector<double>(kGpus, 1.0));
  for (int from = 0; from < kGpus; ++from) {
    TrafficMatrix::Mix& mix = out.new_mix(lanes, from, from + 1);
    mix.reach.assign(exchange.bytes.begin() + from * kGpus, exchange.bytes.begin() + (from + 1) * kGpus);
    out.count(mix);
  }
  return out;
}

double microseconds(const Exchange& exchange, NetworkModel model, bool pxn) {
  const NetworkProfile profile{test::plain_link(0, 1.0, kGpusPerNode), test::plain_link(0, 1.0, kGpus)};
  std::unique_ptr<Network> network;
  if (model == NetworkModel::kMaxMin) {
    network = std::make_unique<FabricNetwork>(cluster(), profile, NetworkOptions{.model = model, .pxn = pxn});
  } else {
    network = std::make_unique<TwoTierNetwork>(cluster(), profile, NetworkOptions{.model = model, .pxn = pxn});
  }
  std::vector<double> carried(network->links().size());
  return 1e6 * network->all_to_all(traffic_of(exchange), Bytes(1), Direction::kDispatch, carried).price.time.count();
}

// The cells of an exchange's row in the table of docs/network-check.md, behind its name.
std::vector<double> row_of(const std::string& name) {
  std::ifstream file(test::source_dir() / "docs/network-check.md");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| " + name + " |")) {
      std::istringstream cells(line.substr(name.size() + 4));
      std::vector<double> out;
      for (std::string cell; std::getline(cells, cell, '|');) {
        out.push_back(std::stod(cell));
      }
      return out;
    }
  }
  FAIL("docs/network-check.md has no row of " << name);
  return {};
}

}  // namespace

TEST_CASE("max_min shares links as SimGrid does") {
  const std::vector<Exchange> all = crosscheck::exchanges();
  const std::vector<Measured> fluid = measured("direct");
  REQUIRE(fluid.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    CHECK(std::abs(microseconds(all[i], NetworkModel::kMaxMin, false) / fluid[i].fluid_us - 1) < 1e-5);
  }
}

TEST_CASE("an exchange takes about as long as its packets do in ns-3: each error as the table has it") {
  constexpr NetworkModel kModels[] = {NetworkModel::kTwoTier, NetworkModel::kFairShare, NetworkModel::kMaxMin};
  constexpr double kRounded = 0.051;
  const std::vector<Exchange> all = crosscheck::exchanges();
  for (const bool relayed : {false, true}) {
    const std::vector<Measured> packets = measured(relayed ? "relayed" : "direct");
    REQUIRE(packets.size() == all.size());
    std::array<double, 3> mean{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(all[i].name);
      const std::vector<double> row = row_of(all[i].name);
      REQUIRE(packets[i].name == all[i].name);
      REQUIRE(row.size() == 9);
      CHECK(std::abs(row[relayed ? 5 : 0] - packets[i].packets_us) < kRounded);
      CHECK((relayed || std::abs(row[1] - packets[i].fluid_us) < kRounded));
      for (std::size_t m = 0; m < std::size(kModels); ++m) {
        const double error = 100 * (microseconds(all[i], kModels[m], relayed) / packets[i].packets_us - 1);
        CHECK(std::abs(row[(relayed ? 6 : 2) + m] - error) < kRounded);
        mean[m] += std::abs(error) / static_cast<double>(all.size());
      }
    }
    const std::array<double, 3> stated = relayed ? std::array{2.3, 1.7, 1.7} : std::array{4.8, 2.4, 2.6};
    for (std::size_t m = 0; m < mean.size(); ++m) {
      CHECK(std::abs(mean[m] - stated[m]) < kRounded);
    }
  }
}

}  // namespace epsim::crosscheck_tests
