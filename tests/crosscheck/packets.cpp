// How long the exchanges of exchange_matrices.h take packet by packet in ns-3. Not part of the build; README.md says how
// it is run. Writes a line per exchange: name, microseconds.
//
//   Models : 64 NICs of 400 Gb/s on one switch with unlimited queues, so that nothing is lost; a flow per pair, with
//            packets of 4096 B and at most `window` bytes in flight, as a queue pair or NCCL's buffers allow; 60 ns a
//            cable. Senders and receivers serve packets in the order of their arrival.
//   Ignores: the inside of nodes, loss, priorities, routing among several switches.
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/crosscheck/exchange_matrices.h"

namespace {

using epsim::crosscheck::Exchange;
using epsim::crosscheck::kGpus;

constexpr int kPort = 9;
constexpr int kPayload = 4096;
constexpr int kHeaders = 54;  // PPP, IPv4, TCP with timestamps: on top of kNicRate, which models take as payload

struct Star {
  ns3::NodeContainer hosts{kGpus}, hub{1};
  std::vector<ns3::Ipv4Address> address;
};

void connect(Star& star) {
  ns3::InternetStackHelper stack;
  stack.SetIpv6StackInstall(false);
  stack.Install(star.hosts);
  stack.Install(star.hub);
  const auto wire_bits = static_cast<std::uint64_t>(8 * epsim::crosscheck::kNicRate * (kPayload + kHeaders) / kPayload);
  ns3::PointToPointHelper cable;
  cable.SetDeviceAttribute("DataRate", ns3::DataRateValue(ns3::DataRate(wire_bits)));
  cable.SetDeviceAttribute("Mtu", ns3::UintegerValue(9000));
  cable.SetChannelAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(60)));
  cable.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", ns3::StringValue("10000000p"));
  ns3::Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
  ns3::Ipv4StaticRoutingHelper routing;
  for (int g = 0; g < kGpus; ++g) {
    const ns3::NetDeviceContainer ends = cable.Install(star.hosts.Get(g), star.hub.Get(0));
    const ns3::Ipv4InterfaceContainer at = addresses.Assign(ends);
    ns3::TrafficControlHelper().Uninstall(ends);  // the device's own queue alone
    addresses.NewNetwork();
    star.address.push_back(at.GetAddress(0));
    routing.GetStaticRouting(star.hosts.Get(g)->GetObject<ns3::Ipv4>())->SetDefaultRoute(at.GetAddress(1), 1);
  }
}

double last_byte_us = 0;
double received = 0;

void on_receive(ns3::Ptr<const ns3::Packet> packet, const ns3::Address&) {
  received += packet->GetSize();
  last_byte_us = ns3::Simulator::Now().GetNanoSeconds() / 1e3;
}

double run(const Exchange& exchange, int window) {
  ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(kPayload));
  ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(window));
  ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(window));
  ns3::Config::SetDefault("ns3::TcpSocket::InitialCwnd", ns3::UintegerValue(window / kPayload));
  ns3::Config::SetDefault("ns3::TcpSocket::DelAckCount", ns3::UintegerValue(1));
  Star star;
  connect(star);
  last_byte_us = received = 0;
  double sent = 0;
  for (int g = 0; g < kGpus; ++g) {
    ns3::PacketSinkHelper sink("ns3::TcpSocketFactory", ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), kPort));
    const ns3::ApplicationContainer app = sink.Install(star.hosts.Get(g));
    app.Get(0)->TraceConnectWithoutContext("Rx", ns3::MakeCallback(&on_receive));
  }
  for (int from = 0; from < kGpus; ++from) {
    for (int step = 1; step < kGpus; ++step) {  // as NCCL starts: with the next one's index
      const int to = (from + step) % kGpus;
      const double bytes = exchange.at(from, to);
      if (bytes > 0) {
        sent += bytes;
        ns3::BulkSendHelper sender("ns3::TcpSocketFactory", ns3::InetSocketAddress(star.address[to], kPort));
        sender.SetAttribute("MaxBytes", ns3::UintegerValue(static_cast<std::uint64_t>(bytes)));
        sender.SetAttribute("SendSize", ns3::UintegerValue(kPayload));
        sender.Install(star.hosts.Get(from));
      }
    }
  }
  ns3::Simulator::Stop(ns3::MilliSeconds(50));
  ns3::Simulator::Run();
  ns3::Simulator::Destroy();
  if (received != sent) {
    std::fprintf(stderr, "%s: %.0f of %.0f bytes arrived\n", exchange.name.c_str(), received, sent);
    std::exit(1);
  }
  return last_byte_us;
}

}  // namespace

// usage: packets WINDOW_BYTES [RELAYED (0 or 1) [FIRST LAST]]
int main(int argc, char** argv) {
  const int window = argc > 1 ? std::atoi(argv[1]) : 32768;
  const bool relayed = argc > 2 && std::atoi(argv[2]) == 1;
  const std::vector<Exchange> all = epsim::crosscheck::exchanges();
  const std::size_t first = argc > 3 ? std::atoi(argv[3]) : 0, last = argc > 4 ? std::atoi(argv[4]) : all.size() - 1;
  for (std::size_t i = first; i <= last; ++i) {
    std::printf("%s;%.3f\n", all[i].name.c_str(), run(relayed ? epsim::crosscheck::relayed(all[i]) : all[i], window));
    std::fflush(stdout);
  }
  return 0;
}
