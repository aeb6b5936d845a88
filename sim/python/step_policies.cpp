#include <fmt/format.h>

#include "policies/registry.h"
#include "policies/step_policy.h"
#include "sim/python/bindings.h"

namespace epsim::python {
namespace {

py::array_t<std::int64_t> counts_of(const RequestMatrix& matrix) {
  return py::array_t<std::int64_t>({matrix.gpus, matrix.experts}, matrix.count.data());
}

// What the decorator says of a policy besides its function.
struct StepOptions {
  int extra_experts = 0;
  bool on_demand = true;
};

class FunctionStep final : public StepPolicy {
 public:
  FunctionStep(std::string label, const py::object& function, const StepOptions& options)
      : label_(std::move(label)), function_(held(function)), options_(options) {}

  // Copies on demand leave once the routing is known, as HarMoEny's do; those ahead go into slots that layers share.
  ExecutionProfile profile() const override {
    return {.plans_before_dispatch = true,
            .copies_on_demand = options_.on_demand,
            .extra_experts = options_.on_demand ? 0 : options_.extra_experts,
            .uses_prediction = true,
            .slots = options_.on_demand ? 0 : options_.extra_experts};
  }

  StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                      const Residency& home) const override {
    const py::gil_scoped_acquire lock;
    try {
      const py::array_t<std::int32_t> homes(home.experts(), home.home.data());
      const py::object given = (*function_)(counts_of(requests), counts_of(predicted), homes);
      const bool pair = py::isinstance<py::tuple>(given) && py::len(given) == 2;
      TokenAssignment tokens = tokens_of(pair ? given[py::int_(0)] : given, requests);
      const Residency all = pair ? residency_of(given[py::int_(1)], home, tokens) : home;
      StepDecision out = pair ? with_copies_of(all, std::move(tokens)) : with_needed_copies(home, std::move(tokens));
      if (!options_.on_demand && out.most_extra > options_.extra_experts) {
        refuse(fmt::format("{} experts are away from home on one GPU, and extra_experts is {}.", out.most_extra,
                           options_.extra_experts));
      }
      if (!options_.on_demand && !out.copies.empty() && predicted.total() == 0) {
        refuse(
            fmt::format("{} experts are copied ahead where nothing was predicted, as of the first layer; leave those "
                        "tokens at home.",
                        out.copies.size()));
      }
      return out;
    } catch (const py::error_already_set& error) {
      throw InputError({"", 0, label_}, raised("the policy", error));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw InputError({"", 0, label_},
                     fmt::format("{} The function returns tokens [GPUs, experts], whole numbers that sum over GPUs to "
                                 "those of the requests, or these and held [experts, GPUs].",
                                 problem));
  }

  TokenAssignment tokens_of(const py::object& given, const RequestMatrix& requests) const {
    const auto array = py::array::ensure(given);
    if (!array || array.ndim() != 2 || array.shape(0) != requests.gpus || array.shape(1) != requests.experts ||
        (array.dtype().kind() != 'i' && array.dtype().kind() != 'u')) {
      PyErr_Clear();
      refuse(
          fmt::format("what it returned is not an array of whole numbers [{}, {}].", requests.gpus, requests.experts));
    }
    const auto numbers = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>(array);
    TokenAssignment out(requests.gpus, requests.experts);
    out.count.assign(numbers.data(), numbers.data() + numbers.size());
    for (int e = 0; e < out.experts; ++e) {
      for (int g = 0; g < out.gpus; ++g) {
        if (out.at(g, e) < 0) {
          refuse(fmt::format("GPU {} has {} tokens of expert {}.", g, out.at(g, e), e));
        }
      }
      if (out.of_expert(e) != requests.of_expert(e)) {
        refuse(fmt::format("expert {} has {} tokens of {}.", e, out.of_expert(e), requests.of_expert(e)));
      }
    }
    return out;
  }

  // Which experts lie where besides their homes; tokens are computed on GPUs that hold their expert.
  Residency residency_of(const py::object& given, const Residency& home, const TokenAssignment& tokens) const {
    const auto array = py::array_t<bool, py::array::c_style | py::array::forcecast>::ensure(given);
    if (!array || array.ndim() != 2 || array.shape(0) != home.experts() || array.shape(1) != home.gpus) {
      PyErr_Clear();
      refuse(fmt::format("`held` is not an array [{}, {}].", home.experts(), home.gpus));
    }
    Residency out = home;
    for (int e = 0; e < home.experts(); ++e) {
      for (int g = 0; g < home.gpus; ++g) {
        if (array.at(e, g)) {
          out.add(e, g);
        }
        if (tokens.at(g, e) > 0 && !out.holds(e, g)) {
          refuse(fmt::format("GPU {} has tokens of expert {}, which it does not hold.", g, e));
        }
      }
    }
    return out;
  }

  std::string label_;
  std::shared_ptr<py::object> function_;
  StepOptions options_;
};

}  // namespace

PolicyChoice step_policy_choice(const PolicyGiven& given) {
  const py::dict options = given.per_step;
  PolicyChoice out;
  out.label = out.planned_by = given.label;
  out.per_step = std::make_shared<FunctionStep>(
      given.label, given.function,
      StepOptions{options["extra_experts"].cast<int>(), options["on_demand"].cast<bool>()});
  Config config = Config::from_text("{}", given.label);
  for (const char* key : {"accuracy", "distortion", "planning_time", "copy_efficiency"}) {
    if (options.contains(key)) {
      config.set(std::string(key) + "=" + std::string(py::str(options[key])), given.label);
    }
  }
  ConfigReader in = config.root();
  out.step_run = read_step_policy_run(in, true, true);
  in.finish();
  ConfigReader none = Config::from_text("{}", given.label).root();
  out.placement = experts_in_order().make(none);
  return out;
}

}  // namespace epsim::python
