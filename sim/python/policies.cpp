#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "policies/placement_policy.h"
#include "policies/plan_tools.h"
#include "policies/registry.h"
#include "sim/python/bindings.h"

namespace epsim::python {
namespace {

// What a policy's function sees of the cluster and the model.
struct PolicyShape {
  int gpus, gpus_per_node, nodes, layers, experts;
};

py::array_t<double> loads_of(const LoadWindow& window) {
  py::array_t<double> out({window.layers(), window.experts()});
  for (int l = 0; l < window.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), out.mutable_data(l, 0));
  }
  return out;
}

class FunctionPlacement final : public PlacementPolicy {
 public:
  FunctionPlacement(std::string label, const py::object& function)
      : label_(std::move(label)), function_(held(function)) {}

  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    const py::gil_scoped_acquire lock;
    const PolicyShape seen{shape.gpus, shape.gpus_per_node, shape.nodes(), load.layers(), load.experts()};
    try {
      const py::object slots = (*function_)(loads_of(load), seen);
      PlacementPlan out{.policy = label_, .experts = load.experts(), .gpus = shape.gpus, .layers = {}};
      for (int l = 0; l < load.layers(); ++l) {
        out.layers.push_back(layer_of(slots, l, seen));
      }
      return out;
    } catch (const py::error_already_set& error) {
      throw InputError({"", 0, label_}, raised("the policy", error));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError(
        {"", 0, label_},
        fmt::format("{} The function returns slots[layer][GPU], a list of experts for each GPU, or an array "
                    "[layers, slots] with as many slots on every GPU, GPU by GPU.",
                    problem));
  }

  LayerPlan layer_of(const py::object& slots, int layer, const PolicyShape& shape) const {
    if (slots.is_none() || !py::hasattr(slots, "__len__") || py::len(slots) != static_cast<std::size_t>(shape.layers)) {
      refuse(fmt::format("the policy's function did not return one entry for each of the {} layers.", shape.layers));
    }
    const py::object row = slots[py::int_(layer)];
    const bool by_gpu = py::len(row) > 0 && py::hasattr(row[py::int_(0)], "__len__");
    LayerPlan out = by_gpu ? layer_by_gpu(row, layer, shape) : even_layer(row, layer, shape);
    const std::vector<int> copies = copies_by_expert(out, shape.experts);
    const auto missing = std::find(copies.begin(), copies.end(), 0);
    if (missing != copies.end()) {
      refuse(fmt::format("expert {} is on no GPU in layer {}.", missing - copies.begin(), layer));
    }
    return out;
  }

  LayerPlan even_layer(const py::object& row, int layer, const PolicyShape& shape) const {
    std::vector<int> experts = experts_of(row, layer, shape);
    if (experts.size() % static_cast<std::size_t>(shape.gpus) != 0) {
      refuse(
          fmt::format("layer {} has {} slots, which do not divide over {} GPUs.", layer, experts.size(), shape.gpus));
    }
    return uniform_layer(std::move(experts), shape.gpus);
  }

  LayerPlan layer_by_gpu(const py::object& row, int layer, const PolicyShape& shape) const {
    if (py::len(row) != static_cast<std::size_t>(shape.gpus)) {
      refuse(fmt::format("layer {} has {} lists of experts for {} GPUs.", layer, py::len(row), shape.gpus));
    }
    LayerPlan out{.slots = {}, .first_slot = {0}, .copy_rank = {}};
    for (int g = 0; g < shape.gpus; ++g) {
      const std::vector<int> experts = experts_of(row[py::int_(g)], layer, shape);
      out.slots.insert(out.slots.end(), experts.begin(), experts.end());
      out.first_slot.push_back(static_cast<int>(out.slots.size()));
    }
    return out;
  }

  std::vector<int> experts_of(const py::object& list, int layer, const PolicyShape& shape) const {
    const auto array = py::array::ensure(list);
    const bool whole =
        array && array.ndim() == 1 && (array.size() == 0 || array.dtype().kind() == 'i' || array.dtype().kind() == 'u');
    if (!whole) {
      PyErr_Clear();
      refuse(fmt::format("layer {} holds something else than a list of whole numbers.", layer));
    }
    const auto numbers = py::array_t<std::int64_t, py::array::forcecast>(array);
    std::vector<int> out;
    for (py::ssize_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t expert = numbers.at(i);
      if (expert < 0 || expert >= shape.experts) {
        refuse(fmt::format("layer {} names expert {}; experts are 0..{}.", layer, expert, shape.experts - 1));
      }
      out.push_back(static_cast<int>(expert));
    }
    return out;
  }

  std::string label_;
  std::shared_ptr<py::object> function_;
};

}  // namespace

std::vector<PolicyGiven> policies_given(const py::list& policies) {
  std::vector<PolicyGiven> out;
  for (const py::handle& item : policies) {
    const auto [label, function, per_step] = item.cast<std::tuple<std::string, py::object, py::object>>();
    out.push_back({label, function, per_step});
  }
  return out;
}

std::shared_ptr<const PlacementPolicy> python_placement(const std::string& label, const py::object& function) {
  return std::make_shared<FunctionPlacement>(label, function);
}

PolicyChoice python_policy(const PolicyGiven& given) {
  if (!given.per_step.is_none()) {
    return step_policy_choice(given);
  }
  PolicyChoice out;
  out.label = out.planned_by = given.label;
  out.placement = python_placement(given.label, given.function);
  return out;
}

std::vector<std::string> labels_of(const std::vector<PolicyGiven>& given) {
  std::vector<std::string> out;
  for (const PolicyGiven& policy : given) {
    if (!policy.is_python()) {
      out.push_back(policy.label);
    }
  }
  return out;
}

void add_python_policies(Scenario& scenario, const std::vector<PolicyGiven>& given) {
  if (given.empty()) {
    return;
  }
  std::vector<PolicyChoice> known = std::exchange(scenario.policies, {});
  auto next = known.begin();
  for (const PolicyGiven& policy : given) {
    scenario.policies.push_back(policy.is_python() ? python_policy(policy) : std::move(*next++));
  }
}

void bind_policies(py::module_& m) {
  py::class_<PolicyShape>(m, "Shape", "What a policy's function sees of the cluster and the model.")
      .def_readonly("gpus", &PolicyShape::gpus, "GPUs of one instance.")
      .def_readonly("gpus_per_node", &PolicyShape::gpus_per_node, "GPUs of one node.")
      .def_readonly("nodes", &PolicyShape::nodes, "Nodes of one instance.")
      .def_readonly("layers", &PolicyShape::layers, "MoE layers: rows of the loads.")
      .def_readonly("experts", &PolicyShape::experts, "Routed experts of a layer: columns of the loads.")
      .def("__repr__", [](const PolicyShape& s) {
        return fmt::format("Shape(gpus={}, gpus_per_node={}, nodes={}, layers={}, experts={})", s.gpus, s.gpus_per_node,
                           s.nodes, s.layers, s.experts);
      });
  m.def("policy_kinds", &policy_kinds, "Names of the built-in policies.");
}

}  // namespace epsim::python
