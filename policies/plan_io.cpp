#include "policies/plan_io.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "policies/plan_tools.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

using nlohmann::json;
using Rows = std::vector<std::vector<int>>;

std::vector<int> slots_per_gpu(const LayerPlan& layer) {
  std::vector<int> out(static_cast<std::size_t>(layer.gpus()));
  for (std::size_t g = 0; g < out.size(); ++g) {
    out[g] = layer.first_slot[g + 1] - layer.first_slot[g];
  }
  return out;
}

// "name": [ row, row, ... ], each row on a line of its own.
template <class Row>
std::string member(const PlacementPlan& plan, const char* name, Row row) {
  return fmt::format("  \"{}\": [\n    [{}]\n  ]", name, fmt::join(mapped(plan.layers, row), "],\n    ["));
}

// What one file says, and where its mistakes are reported.
class PlanReader {
 public:
  PlanReader(const std::string& text, const std::string& name) : name_(name) {
    try {
      document_ = json::parse(text);
    } catch (const json::exception& e) {
      fail("", fmt::format("this is not valid JSON{}.", e.id == 406 ? ": a number is beyond what 64 bits hold" : ""));
    }
    if (!document_.is_object()) {
      fail("", "a plan is a JSON object.");
    }
  }

  PlacementPlan read() {
    PlacementPlan plan{.policy = "a plan file", .experts = 0, .gpus = 0, .layers = {}};
    if (document_.contains("policy") && document_["policy"].is_string()) {
      plan.policy = document_["policy"].get<std::string>();
    }
    plan.experts = positive("num_experts");
    plan.gpus = positive("num_gpus");
    const auto rows = take<Rows>("phy2log", "a list of lists of expert numbers");
    if (rows.empty()) {
      fail("phy2log", "the plan has no layer.");
    }
    const Rows sizes = document_.contains("slots") ? take<Rows>("slots", "a list of lists of slot counts") : Rows{};
    if (!sizes.empty() && sizes.size() != rows.size()) {
      fail("slots", fmt::format("{} layers, but phy2log has {}.", sizes.size(), rows.size()));
    }
    for (std::size_t l = 0; l < rows.size(); ++l) {
      plan.layers.push_back(layer(plan, rows[l], sizes.empty() ? nullptr : &sizes[l], l));
    }
    if (document_.contains("log2phy")) {
      read_ranks(plan);
    }
    return plan;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw InputError({name_, 0, key}, problem);
  }

  template <class T>
  T take(const std::string& key, const std::string& what) const {
    try {
      return document_.at(key).get<T>();
    } catch (const json::exception&) {
      fail(key, fmt::format("a plan needs this key, as {}.", what));
    }
  }

  int positive(const std::string& key) const {
    const int value = take<int>(key, "a whole number");
    if (value <= 0) {
      fail(key, fmt::format("'{}' is not a whole number above 0.", value));
    }
    return value;
  }

  LayerPlan layer(const PlacementPlan& plan, const std::vector<int>& slots, const std::vector<int>* sizes,
                  std::size_t l) const {
    for (const int e : slots) {
      if (e < 0 || e >= plan.experts) {
        fail("phy2log", fmt::format("layer {}: expert {} is not in 0..{}.", l, e, plan.experts - 1));
      }
    }
    const auto gpus = static_cast<std::size_t>(plan.gpus);
    if (sizes == nullptr) {
      if (slots.size() % gpus != 0) {
        fail("phy2log", fmt::format("layer {}: {} slots do not divide over {} GPUs, and the plan has no `slots`.", l,
                                    slots.size(), gpus));
      }
      return checked(uniform_layer(slots, plan.gpus), plan, l);
    }
    if (sizes->size() != gpus || std::any_of(sizes->begin(), sizes->end(), [](int n) { return n < 0; }) ||
        std::accumulate(sizes->begin(), sizes->end(), std::size_t{0}) != slots.size()) {
      fail("slots",
           fmt::format("layer {}: this must be {} counts that sum to the {} slots of phy2log.", l, gpus, slots.size()));
    }
    LayerPlan out{.slots = slots, .first_slot = {0}, .copy_rank = {}};
    for (const int n : *sizes) {
      out.first_slot.push_back(out.first_slot.back() + n);
    }
    return checked(std::move(out), plan, l);
  }

  LayerPlan checked(LayerPlan layer, const PlacementPlan& plan, std::size_t l) const {
    const std::vector<int> copies = copies_by_expert(layer, plan.experts);
    const auto none = std::find(copies.begin(), copies.end(), 0);
    if (none != copies.end()) {
      fail("phy2log", fmt::format("layer {}: expert {} has no copy.", l, none - copies.begin()));
    }
    return layer;
  }

  // Copy ranks: the position of each slot in its expert's list.
  void read_ranks(PlacementPlan& plan) const {
    const auto lists = take<std::vector<Rows>>("log2phy", "a list per layer of a list per expert of slots");
    if (lists.size() != plan.layers.size()) {
      fail("log2phy", fmt::format("{} layers, but phy2log has {}.", lists.size(), plan.layers.size()));
    }
    for (std::size_t l = 0; l < lists.size(); ++l) {
      LayerPlan& layer = plan.layers[l];
      layer.copy_rank.assign(layer.slots.size(), -1);
      std::size_t seen = 0;
      for (std::size_t e = 0; e < lists[l].size(); ++e) {
        for (std::size_t rank = 0; rank < lists[l][e].size(); ++rank, ++seen) {
          const auto slot = static_cast<std::size_t>(lists[l][e][rank]);
          if (slot >= layer.slots.size() || layer.slots[slot] != static_cast<int>(e) || layer.copy_rank[slot] != -1) {
            fail("log2phy", fmt::format("layer {}: it puts a copy of expert {} into slot {}, and phy2log does not.", l,
                                        e, lists[l][e][rank]));
          }
          layer.copy_rank[slot] = static_cast<int>(rank);
        }
      }
      if (seen != layer.slots.size()) {
        fail("log2phy", fmt::format("layer {}: it names {} slots of {}.", l, seen, layer.slots.size()));
      }
    }
  }

  std::string name_;
  json document_;
};

}  // namespace

bool is_uniform(const PlacementPlan& plan) {
  return std::all_of(plan.layers.begin(), plan.layers.end(), [&](const LayerPlan& layer) {
    const std::vector<int> sizes = slots_per_gpu(layer);
    return layer.slots.size() == plan.layers.front().slots.size() &&
           std::all_of(sizes.begin(), sizes.end(), [&](int n) { return n == sizes.front(); });
  });
}

std::string plan_maps_json(const PlacementPlan& plan) {
  std::string out =
      member(plan, "phy2log", [](const LayerPlan& layer) { return fmt::format("{}", fmt::join(layer.slots, ",")); });
  if (!is_uniform(plan)) {
    out += ",\n" + member(plan, "slots", [](const LayerPlan& layer) {
             return fmt::format("{}", fmt::join(slots_per_gpu(layer), ","));
           });
  }
  out += ",\n" + member(plan, "log2phy", [&](const LayerPlan& layer) {
           const auto lists = mapped(slots_by_expert(layer, plan.experts),
                                     [](const auto& slots) { return fmt::format("[{}]", fmt::join(slots, ",")); });
           return fmt::format("{}", fmt::join(lists, ","));
         });
  return out + ",\n" + member(plan, "logcnt", [&](const LayerPlan& layer) {
           return fmt::format("{}", fmt::join(copies_by_expert(layer, plan.experts), ","));
         });
}

PlacementPlan parse_plan(const std::string& text, const std::string& name) { return PlanReader(text, name).read(); }

}  // namespace epsim
