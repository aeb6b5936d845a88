#include "models/network/max_min.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {
namespace {

// A flow ends when this share of its bytes is left: flows that end together in exact arithmetic end in one event.
constexpr double kEnded = 1e-12;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Flows over the same limiting links: they have the same rate for as long as they live, and end in order of size.
struct FlowClass {
  std::vector<int> links;                       // numbers within the component
  std::vector<std::pair<double, int>> by_size;  // bytes, flow
};

// Classes and links that depend on each other's rates, and on nothing else. What changes with every event lies in one
// array per figure: all living classes are looked at in every event.
class Component {
 public:
  Component(std::vector<FlowClass> classes, std::vector<double> capacity)
      : classes_(std::move(classes)),
        capacity_(std::move(capacity)),
        users_(capacity_.size()),
        living_on_(capacity_.size()),
        share_(capacity_.size()) {
    const std::size_t count = classes_.size();
    for (std::size_t c = 0; c < count; ++c) {
      std::vector<std::pair<double, int>>& flows = classes_[c].by_size;
      std::sort(flows.begin(), flows.end());
      living_.push_back(c);
      size_.push_back(flows.front().first);
      weight_.push_back(static_cast<double>(flows.size()));
      for (const int link : classes_[c].links) {
        users_[link].push_back(c);
        living_on_[link] += weight_[c];
      }
    }
    ended_.resize(count);
    filled_in_.resize(count);
    served_.resize(count);
    rate_.resize(count);
  }

  // Writes when each flow ends; returns the number of events.
  int run(std::vector<Seconds>& finish) {
    double now = 0;
    while (!living_.empty()) {
      ++event_;
      fill();
      now += serve_until_next_end();
      end_flows(now, finish);
    }
    return event_;
  }

 private:
  // Progressive filling. The level only rises in exact arithmetic; rounding must not lower it either.
  void fill() {
    spare_ = capacity_;
    growing_ = living_on_;
    for (std::size_t link = 0; link < share_.size(); ++link) {
      share_[link] = growing_[link] > 0 ? spare_[link] / growing_[link] : kInfinite;
    }
    double level = 0;
    for (;;) {
      const auto full = std::min_element(share_.begin(), share_.end());
      if (*full == kInfinite) {
        return;
      }
      level = std::max(level, *full);
      freeze(static_cast<std::size_t>(full - share_.begin()), level);
    }
  }

  // Gives the growing flows of a full link their final rate.
  void freeze(std::size_t full, double level) {
    std::erase_if(users_[full], [&](std::size_t c) { return weight_[c] == 0; });
    for (const std::size_t c : users_[full]) {
      if (filled_in_[c] == event_) {
        continue;
      }
      filled_in_[c] = event_;
      rate_[c] = level;
      for (const int link : classes_[c].links) {
        const std::size_t i = link;
        spare_[i] = std::max(0.0, spare_[i] - level * weight_[c]);
        growing_[i] -= weight_[c];  // whole numbers: exactly 0 in the end
        share_[i] = growing_[i] > 0 ? spare_[i] / growing_[i] : kInfinite;
      }
    }
    EPSIM_CHECK(growing_[full] == 0, "a full link has no growing flows");
  }

  double serve_until_next_end() {
    double step = kInfinite;
    for (const std::size_t c : living_) {
      step = std::min(step, (size_[c] - served_[c]) / rate_[c]);
    }
    EPSIM_CHECK(std::isfinite(step) && step >= 0, "every living flow has a rate and bytes left");
    for (const std::size_t c : living_) {
      served_[c] += step * rate_[c];
    }
    return step;
  }

  void end_flows(double now, std::vector<Seconds>& finish) {
    bool emptied = false;
    for (const std::size_t c : living_) {
      while (weight_[c] > 0 && size_[c] - served_[c] <= kEnded * size_[c]) {
        end_next(c, now, finish);
        emptied = emptied || weight_[c] == 0;
      }
    }
    if (emptied) {
      std::erase_if(living_, [&](std::size_t c) { return weight_[c] == 0; });
    }
  }

  void end_next(std::size_t c, double now, std::vector<Seconds>& finish) {
    const std::vector<std::pair<double, int>>& flows = classes_[c].by_size;
    finish[flows[ended_[c]].second] = Seconds(now);
    weight_[c] -= 1;
    for (const int link : classes_[c].links) {
      living_on_[link] -= 1;
    }
    if (++ended_[c] < flows.size()) {
      size_[c] = flows[ended_[c]].first;
    }
  }

  std::vector<FlowClass> classes_;
  std::vector<double> capacity_;                 // [link] bytes per second
  std::vector<std::vector<std::size_t>> users_;  // [link] classes; some may have ended
  std::vector<double> living_on_;                // [link] flows that have not ended
  std::vector<std::size_t> living_;              // classes with such flows
  int event_ = 0;
  // [class]
  std::vector<double> size_;    // bytes of the next flow to end
  std::vector<double> weight_;  // flows that have not ended
  std::vector<double> served_;  // bytes that each of these has had
  std::vector<double> rate_;    // of each of these
  std::vector<std::size_t> ended_;
  std::vector<int> filled_in_;  // the last event in which it got its rate
  // [link] of one filling
  std::vector<double> spare_;    // rate that nobody has taken yet
  std::vector<double> growing_;  // flows whose rate still grows
  std::vector<double> share_;    // spare / growing; infinite without growing flows
};

void check_size(const Flow& flow) {
  if (!(flow.bytes.count() >= 0) || !std::isfinite(flow.bytes.count())) {
    throw InputError({"", 0, "bytes"},
                     fmt::format("the flow from GPU {} to GPU {} has {} bytes; a size is finite and not negative.",
                                 flow.from, flow.to, flow.bytes.count()));
  }
}

// All flows by the limiting links of their routes, in the order of those links.
std::map<std::vector<int>, FlowClass> classify(const Topology& topology, std::span<const Flow> flows) {
  std::map<std::vector<int>, FlowClass> classes;
  for (std::size_t f = 0; f < flows.size(); ++f) {
    check_size(flows[f]);
    std::vector<int> links = topology.route(flows[f].from, flows[f].to);
    std::erase_if(links, [&](int link) { return topology.links()[link].rate == kUnlimited; });
    if (!links.empty() && flows[f].bytes.count() > 0) {
      FlowClass& flow_class = classes[links];
      flow_class.links = std::move(links);
      flow_class.by_size.emplace_back(flows[f].bytes.count(), static_cast<int>(f));
    }
  }
  return classes;
}

// Splits the classes where they share no link, and numbers the links of each part from 0.
std::vector<Component> components_of(const Topology& topology, std::map<std::vector<int>, FlowClass>&& classes) {
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
      int& local = number[link];
      if (local < 0) {
        local = static_cast<int>(capacity[part].size());
        capacity[part].push_back(topology.links()[link].rate.count());
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
  for (Component& component : components_of(topology, classify(topology, flows))) {
    out.events += component.run(out.finish);
  }
  for (const Seconds end : out.finish) {
    out.time = std::max(out.time, end);
  }
  return out;
}

}  // namespace epsim
