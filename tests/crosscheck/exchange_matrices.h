// Twenty skewed exchanges of 8 nodes x 8 GPUs, one NIC a GPU, for models of the network to be held against simulators
// that share no code with them. Standard library alone: packets.cpp and fluid.cpp compile without epsim.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace epsim::crosscheck {

inline constexpr int kGpus = 64, kGpusPerNode = 8;
// What the busiest NIC of a matrix carries in its busier direction, and every NIC's rate in each.
inline constexpr double kBusiestBytes = 8e6, kNicRate = 50e9;

struct Exchange {
  std::string name;
  std::vector<double> bytes;  // [from][to], whole numbers; nothing inside a node

  double at(int from, int to) const { return bytes[static_cast<std::size_t>(from * kGpus + to)]; }
};

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the same draws whatever the compiler.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  double uniform() {  // in [0, 1)
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<double>((z ^ (z >> 31U)) >> 11U) * 0x1p-53;
  }
  int below(int n) { return static_cast<int>(uniform() * n); }
  double lognormal(double sigma) {  // Box and Muller
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return std::exp(sigma * radius * std::cos(6.283185307179586 * uniform()));
  }

 private:
  std::uint64_t state_;
};

using Heat = std::vector<double>;  // [GPU]

inline Heat even() { return Heat(kGpus, 1.0); }
inline Heat lognormal(Draws& draws, double sigma) {
  Heat out;
  for (int g = 0; g < kGpus; ++g) {
    out.push_back(draws.lognormal(sigma));
  }
  return out;
}
// The k-th hottest GPU, in an order that is drawn, gets 1 / k^exponent.
inline Heat zipf(Draws& draws, double exponent) {
  std::vector<int> order(kGpus);
  for (int g = 0; g < kGpus; ++g) {
    order[static_cast<std::size_t>(g)] = g;
    std::swap(order[static_cast<std::size_t>(g)], order[static_cast<std::size_t>(draws.below(g + 1))]);
  }
  Heat out(kGpus);
  for (int k = 0; k < kGpus; ++k) {
    out[static_cast<std::size_t>(order[static_cast<std::size_t>(k)])] = std::pow(k + 1.0, -exponent);
  }
  return out;
}
inline Heat first_gpus(int gpus) {
  Heat out(kGpus, 0.0);
  std::fill_n(out.begin(), gpus, 1.0);
  return out;
}

// Scales to kBusiestBytes and leaves out what stays inside a node.
template <class Rows>
Exchange exchange(std::string name, Rows rows) {
  Exchange out{std::move(name), std::vector<double>(static_cast<std::size_t>(kGpus * kGpus))};
  std::vector<double> sent(kGpus), received(kGpus);
  for (int from = 0; from < kGpus; ++from) {
    for (int to = 0; to < kGpus; ++to) {
      const double here = from / kGpusPerNode == to / kGpusPerNode ? 0.0 : rows(from, to);
      out.bytes[static_cast<std::size_t>(from * kGpus + to)] = here;
      sent[static_cast<std::size_t>(from)] += here;
      received[static_cast<std::size_t>(to)] += here;
    }
  }
  const double busiest =
      std::max(*std::max_element(sent.begin(), sent.end()), *std::max_element(received.begin(), received.end()));
  for (double& bytes : out.bytes) {
    bytes = std::round(bytes * kBusiestBytes / busiest);
  }
  return out;
}
inline Exchange product(std::string name, const Heat& senders, const Heat& receivers) {
  return exchange(std::move(name), [&](int from, int to) {
    return senders[static_cast<std::size_t>(from)] * receivers[static_cast<std::size_t>(to)];
  });
}

// Everybody sends to `fan_out` GPUs, drawn, as much to each.
inline Exchange sparse(std::string name, Draws& draws, int fan_out) {
  std::vector<double> rows(static_cast<std::size_t>(kGpus * kGpus));
  for (int from = 0; from < kGpus; ++from) {
    for (int left = fan_out; left > 0;) {
      const int to = draws.below(kGpus);
      double& here = rows[static_cast<std::size_t>(from * kGpus + to)];
      if (to / kGpusPerNode != from / kGpusPerNode && here == 0) {
        here = 1;
        --left;
      }
    }
  }
  return exchange(std::move(name), [&](int from, int to) { return rows[static_cast<std::size_t>(from * kGpus + to)]; });
}

// The receivers of each node's tokens are hot in their own way.
inline Exchange by_node(std::string name, Draws& draws, double sigma) {
  std::vector<Heat> heats;
  for (int node = 0; node < kGpus / kGpusPerNode; ++node) {
    heats.push_back(lognormal(draws, sigma));
  }
  return exchange(std::move(name), [&](int from, int to) {
    return heats[static_cast<std::size_t>(from / kGpusPerNode)][static_cast<std::size_t>(to)];
  });
}

inline Heat one_hot(int first, int gpus, double times) {
  Heat out = even();
  std::fill_n(out.begin() + first, gpus, times);
  return out;
}

inline std::vector<Exchange> exchanges() {
  Draws draws(20);
  std::vector<Exchange> out;
  out.push_back(product("even", even(), even()));
  out.push_back(product("receivers zipf 0.5", even(), zipf(draws, 0.5)));
  out.push_back(product("receivers zipf 1", even(), zipf(draws, 1.0)));
  out.push_back(product("receivers zipf 1.5", even(), zipf(draws, 1.5)));
  out.push_back(product("receivers lognormal 0.5", even(), lognormal(draws, 0.5)));
  out.push_back(product("receivers lognormal 1", even(), lognormal(draws, 1.0)));
  out.push_back(product("one hot node, 4 times", even(), one_hot(16, 8, 4)));
  out.push_back(product("one hot GPU, 8 times", even(), one_hot(21, 1, 8)));
  out.push_back(product("one hot GPU, 27 times", even(), one_hot(42, 1, 27)));
  out.push_back(product("1 node sends, zipf 1", first_gpus(8), zipf(draws, 1.0)));
  out.push_back(product("2 nodes send, zipf 1", first_gpus(16), zipf(draws, 1.0)));
  out.push_back(product("3 nodes send, zipf 1", first_gpus(24), zipf(draws, 1.0)));
  out.push_back(product("1 GPU sends, lognormal 1", first_gpus(1), lognormal(draws, 1.0)));
  out.push_back(product("3 GPUs send, lognormal 1", first_gpus(3), lognormal(draws, 1.0)));
  out.push_back(product("senders lognormal 1, receivers even", lognormal(draws, 1.0), even()));
  out.push_back(product("senders and receivers lognormal 1", lognormal(draws, 1.0), lognormal(draws, 1.0)));
  out.push_back(by_node("receivers of each node lognormal 1", draws, 1.0));
  out.push_back(sparse("3 receivers a sender", draws, 3));
  out.push_back(sparse("8 receivers a sender", draws, 8));
  out.push_back(sparse("1 receiver a sender", draws, 1));
  return out;
}

// The same exchange where NCCL relays it: out of the sender's node by the NIC of the receiver's index.
inline Exchange relayed(const Exchange& exchange) {
  Exchange out{exchange.name, std::vector<double>(exchange.bytes.size())};
  for (int from = 0; from < kGpus; ++from) {
    for (int to = 0; to < kGpus; ++to) {
      const int relay = from - from % kGpusPerNode + to % kGpusPerNode;
      out.bytes[static_cast<std::size_t>(relay * kGpus + to)] += exchange.at(from, to);
    }
  }
  return out;
}

}  // namespace epsim::crosscheck
