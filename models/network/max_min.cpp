#include "models/network/max_min.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

// A flow ends when this share of its bytes is left: flows that end together in exact arithmetic end in one event.
constexpr double kEnded = 1e-12;

// Flows over the same limiting links: they have the same rate for as long as they live, and end in order of size.
struct FlowClass {
  std::vector<int> links;                       // numbers within the component
  std::vector<std::pair<double, int>> by_size;  // bytes, flow
  std::size_t ended = 0;
  double served = 0;  // bytes that each living flow has had
  double rate = 0;

  double living() const { return static_cast<double>(by_size.size() - ended); }
  double left() const { return by_size[ended].first - served; }
};

// Classes and links that depend on each other's rates, and on nothing else.
class Component {
 public:
  Component(std::vector<FlowClass> classes, std::vector<double> capacity)
      : classes_(std::move(classes)), capacity_(std::move(capacity)), users_(capacity_.size()) {
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      std::sort(classes_[c].by_size.begin(), classes_[c].by_size.end());
      for (const int link : classes_[c].links) {
        users_[static_cast<std::size_t>(link)].push_back(static_cast<int>(c));
      }
    }
    living_.resize(classes_.size());
    std::iota(living_.begin(), living_.end(), 0);
    spare_.resize(capacity_.size());
    growing_.resize(capacity_.size());
  }

  // Writes when each flow ends; returns the number of events.
  int run(std::vector<Seconds>& finish) {
    int events = 0;
    double now = 0;
    while (!living_.empty()) {
      fill();
      now += serve_until_next_end();
      end_flows(now, finish);
      ++events;
    }
    return events;
  }

 private:
  FlowClass& at(int c) { return classes_[static_cast<std::size_t>(c)]; }

  // Progressive filling. The level only rises in exact arithmetic; rounding must not lower it either.
  void fill() {
    spare_ = capacity_;
    std::fill(growing_.begin(), growing_.end(), 0.0);
    open_links_.clear();
    for (const int c : living_) {
      at(c).rate = 0;
      for (const int link : at(c).links) {
        growing_[static_cast<std::size_t>(link)] += at(c).living();
      }
    }
    for (std::size_t link = 0; link < growing_.size(); ++link) {
      if (growing_[link] > 0) {
        open_links_.push_back(static_cast<int>(link));
      }
    }
    double level = 0;
    while (!open_links_.empty()) {
      std::size_t full = 0;
      double least = std::numeric_limits<double>::infinity();
      for (const int link : open_links_) {
        const auto i = static_cast<std::size_t>(link);
        const double share = spare_[i] / growing_[i];
        if (share < least) {
          least = share;
          full = i;
        }
      }
      level = std::max(level, least);
      freeze(full, level);
      std::erase_if(open_links_, [&](int link) { return growing_[static_cast<std::size_t>(link)] <= 0; });
    }
  }

  void freeze(std::size_t full, double level) {
    for (const int c : users_[full]) {
      FlowClass& flows = at(c);
      if (flows.ended == flows.by_size.size() || flows.rate > 0) {
        continue;
      }
      flows.rate = level;
      for (const int link : flows.links) {
        const auto i = static_cast<std::size_t>(link);
        spare_[i] = std::max(0.0, spare_[i] - level * flows.living());
        growing_[i] -= flows.living();  // whole numbers: exactly 0 in the end
      }
    }
    EPSIM_CHECK(growing_[full] == 0, "a full link has no growing flows");
  }

  double serve_until_next_end() {
    double step = std::numeric_limits<double>::infinity();
    for (const int c : living_) {
      step = std::min(step, at(c).left() / at(c).rate);
    }
    EPSIM_CHECK(std::isfinite(step), "every living flow has a rate");
    step = std::max(step, 0.0);
    for (const int c : living_) {
      at(c).served += step * at(c).rate;
    }
    return step;
  }

  void end_flows(double now, std::vector<Seconds>& finish) {
    for (const int c : living_) {
      FlowClass& flows = at(c);
      while (flows.ended < flows.by_size.size() && flows.left() <= kEnded * flows.by_size[flows.ended].first) {
        finish[static_cast<std::size_t>(flows.by_size[flows.ended].second)] = Seconds(now);
        ++flows.ended;
      }
    }
    std::erase_if(living_, [&](int c) { return at(c).ended == at(c).by_size.size(); });
  }

  std::vector<FlowClass> classes_;
  std::vector<double> capacity_;         // [link] bytes per second
  std::vector<std::vector<int>> users_;  // [link] classes
  std::vector<int> living_;              // classes with flows that have not ended
  // Of one filling.
  std::vector<double> spare_;    // [link] rate that nobody has taken yet
  std::vector<double> growing_;  // [link] flows whose rate still grows
  std::vector<int> open_links_;  // with growing flows
};

void check_size(const Flow& flow) {
  if (!(flow.bytes.count() >= 0) || !std::isfinite(flow.bytes.count())) {
    throw InputError({"", 0, "bytes"},
                     fmt::format("the flow from GPU {} to GPU {} has {} bytes; a size is finite and not negative.",
                                 flow.from, flow.to, flow.bytes.count()));
  }
}

// All flows by the limiting links of their routes, in the order of those links. Adds up what every link carries.
std::map<std::vector<int>, FlowClass> classify(const Topology& topology, std::span<const Flow> flows,
                                               std::vector<Bytes>& link_bytes) {
  std::map<std::vector<int>, FlowClass> classes;
  for (std::size_t f = 0; f < flows.size(); ++f) {
    check_size(flows[f]);
    std::vector<int> links = topology.route(flows[f].from, flows[f].to);
    for (const int link : links) {
      link_bytes[static_cast<std::size_t>(link)] += flows[f].bytes;
    }
    std::erase_if(links, [&](int link) { return topology.links()[static_cast<std::size_t>(link)].rate == kUnlimited; });
    if (!links.empty() && flows[f].bytes.count() > 0) {
      FlowClass& flow_class = classes[links];
      flow_class.links = std::move(links);
      flow_class.by_size.emplace_back(flows[f].bytes.count(), static_cast<int>(f));
    }
  }
  return classes;
}

// Splits the classes where they share no link, and numbers the links of each part from 0.
std::vector<Component> components_of(const Topology& topology, std::map<std::vector<int>, FlowClass> classes) {
  const std::size_t links = topology.links().size();
  std::vector<int> rank(links), parent(links);
  boost::disjoint_sets<int*, int*> sets(rank.data(), parent.data());
  for (std::size_t link = 0; link < links; ++link) {
    sets.make_set(static_cast<int>(link));
  }
  for (const auto& [route, flow_class] : classes) {
    for (const int link : route) {
      sets.union_set(route.front(), link);
    }
  }
  std::map<int, std::vector<FlowClass>> parts;  // by the set's representative
  std::map<int, std::vector<double>> capacity;
  std::vector<int> number(links, -1);
  for (auto& [route, flow_class] : classes) {
    const int part = sets.find_set(route.front());
    for (int& link : flow_class.links) {
      int& local = number[static_cast<std::size_t>(link)];
      if (local < 0) {
        local = static_cast<int>(capacity[part].size());
        capacity[part].push_back(topology.links()[static_cast<std::size_t>(link)].rate.count());
      }
      link = local;
    }
    parts[part].push_back(std::move(flow_class));
  }
  std::vector<Component> out;
  for (auto& [part, members] : parts) {
    out.emplace_back(std::move(members), std::move(capacity[part]));
  }
  return out;
}

}  // namespace

MaxMinResult max_min(const Topology& topology, std::span<const Flow> flows) {
  MaxMinResult out;
  out.finish.resize(flows.size());
  out.link_bytes.resize(topology.links().size());
  for (Component& component : components_of(topology, classify(topology, flows, out.link_bytes))) {
    out.events += component.run(out.finish);
  }
  for (const Seconds end : out.finish) {
    out.time = std::max(out.time, end);
  }
  Seconds longest{};
  for (std::size_t link = 0; link < out.link_bytes.size(); ++link) {
    out.link_busy.push_back(out.link_bytes[link] / topology.links()[link].rate);
    if (out.link_busy.back() > longest * (1.0 + kEnded)) {
      longest = out.link_busy.back();
      out.bottleneck = static_cast<int>(link);
    }
  }
  if (out.bottleneck >= 0) {
    out.bottleneck_name = topology.links()[static_cast<std::size_t>(out.bottleneck)].name;
  }
  return out;
}

}  // namespace epsim
