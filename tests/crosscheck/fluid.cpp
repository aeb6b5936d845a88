// How long the exchanges of exchange_matrices.h take as fluids in SimGrid, which shares links max-min fairly by a solver
// of its own. Not part of the build; README.md says how it is run. Writes a line per exchange: name, microseconds.
#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "tests/crosscheck/exchange_matrices.h"

namespace sg4 = simgrid::s4u;

namespace {

using epsim::crosscheck::Exchange;
using epsim::crosscheck::kGpus;

void send_all(const Exchange& exchange) {
  std::vector<sg4::CommPtr> flows;
  for (int from = 0; from < kGpus; ++from) {
    for (int to = 0; to < kGpus; ++to) {
      if (exchange.at(from, to) > 0) {
        flows.push_back(sg4::Comm::sendto_async(sg4::Host::by_name("gpu" + std::to_string(from)),
                                                sg4::Host::by_name("gpu" + std::to_string(to)),
                                                static_cast<std::uint64_t>(exchange.at(from, to))));
      }
    }
  }
  const double start = sg4::Engine::get_clock();
  for (const sg4::CommPtr& flow : flows) {
    flow->wait();
  }
  std::printf("%s;%.6f\n", exchange.name.c_str(), (sg4::Engine::get_clock() - start) * 1e6);
}

}  // namespace

// usage: fluid [RELAYED (0 or 1)]
int main(int argc, char** argv) {
  const bool relayed = argc > 1 && std::atoi(argv[1]) == 1;
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/TCP-gamma:0");  // no window
  sg4::Engine::set_config("network/weight-S:0");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/bandwidth-factor:1");
  sg4::Engine::set_config("network/latency-factor:1");
  sg4::Engine::set_config("surf/precision:1e-12");
  auto* zone = sg4::create_full_zone("star");
  std::vector<const sg4::Host*> hosts;
  std::vector<const sg4::Link*> out, in;
  for (int g = 0; g < kGpus; ++g) {
    const std::string name = "gpu" + std::to_string(g);
    hosts.push_back(zone->create_host(name, 1e9)->seal());
    out.push_back(zone->create_link(name + ".out", epsim::crosscheck::kNicRate)->seal());
    in.push_back(zone->create_link(name + ".in", epsim::crosscheck::kNicRate)->seal());
  }
  for (int from = 0; from < kGpus; ++from) {
    for (int to = 0; to < kGpus; ++to) {
      if (from != to) {
        const std::vector<sg4::LinkInRoute> links{sg4::LinkInRoute(out[static_cast<std::size_t>(from)]),
                                                  sg4::LinkInRoute(in[static_cast<std::size_t>(to)])};
        zone->add_route(hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                        hosts[static_cast<std::size_t>(to)]->get_netpoint(), nullptr, nullptr, links, false);
      }
    }
  }
  zone->seal();
  sg4::Actor::create("exchanges", sg4::Host::by_name("gpu0"), [relayed] {
    for (const Exchange& exchange : epsim::crosscheck::exchanges()) {
      send_all(relayed ? epsim::crosscheck::relayed(exchange) : exchange);
    }
  });
  engine.run();
  return 0;
}
