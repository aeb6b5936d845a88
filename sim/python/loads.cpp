#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "sim/core/text.h"
#include "sim/python/bindings.h"
#include "sim/study/job_runner.h"
#include "traces/expert_loads/load_sources.h"

namespace epsim::python {
namespace {

constexpr int kMeanSteps = 16;              // that the mean of a function's loads is taken over
constexpr std::int64_t kMeanTokens = 1024;  // of a DP rank in these
constexpr double kMostLoad = 1e300;
constexpr double kRoundingSlack = 1 + 1e-6;  // a chance that is 1 but for rounding

[[noreturn]] void refuse(const std::string& key, const std::string& problem) {
  throw InputError({"", 0, key}, problem);
}

// Sums over experts and layers stay finite.
double checked_load(double load, int layer, int expert, const std::string& key) {
  if (!(load >= 0 && load < kMostLoad)) {
    refuse(key, fmt::format("layer {} has the load {} for expert {}; loads are 0 or more, and below {:g}.", layer, load,
                            expert, kMostLoad));
  }
  return load;
}

// Whether a masked array has masked items. Plain arrays have no mask.
bool any_masked(const py::object& value) {
  return py::hasattr(value, "mask") && py::module_::import("numpy.ma").attr("is_masked")(value).cast<bool>();
}

// Of bool, whole and real numbers, or of Python's own; others would lose what they are on the way to double.
py::array_t<double> numbers_of(const py::object& value, const std::string& key) {
  if (any_masked(value)) {
    refuse(key, "the array has masked items; fill them in first, as in loads.filled(0).");
  }
  const auto given = py::array::ensure(value);
  if (given && std::string_view("biufO").find(given.dtype().kind()) != std::string_view::npos) {
    if (auto numbers = py::array_t<double, py::array::c_style | py::array::forcecast>::ensure(given)) {
      return numbers;
    }
  }
  PyErr_Clear();
  refuse(key, "this is not an array of numbers.");
}

// A function of (step, tokens of each DP rank): chances of experts by layer, of all ranks alike or of each.
class FunctionLoads final : public ExpertLoadSource {
 public:
  FunctionLoads(std::shared_ptr<py::object> function, int layers, int experts, int top_k)
      : function_(std::move(function)), layers_(layers), experts_(experts), top_k_(top_k) {}

  int layers() const override { return layers_; }
  int experts() const override { return experts_; }

  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override {
    const py::gil_scoped_acquire lock;
    try {
      const auto ranks = static_cast<py::ssize_t>(tokens.size());
      const auto given = numbers_of((*function_)(at.number, py::array_t<std::int64_t>(ranks, tokens.data())), "loads");
      const bool by_rank = given.ndim() == 3;
      const bool fits = (given.ndim() == 2 && given.shape(0) == layers_ && given.shape(1) == experts_) ||
                        (by_rank && given.shape(0) == ranks && given.shape(1) == layers_ && given.shape(2) == experts_);
      if (!fits) {
        refuse("loads", fmt::format("the function returned an array of another shape than [{0}, {1}] (MoE layers, "
                                    "experts) or [{2}, {0}, {1}] (DP ranks first).",
                                    layers_, experts_, ranks));
      }
      const int sources = by_rank ? static_cast<int>(ranks) : 1;
      out.resize(layers_, sources, experts_);
      for (int s = 0; s < sources; ++s) {
        for (int l = 0; l < layers_; ++l) {
          fill(given.data() + (static_cast<std::ptrdiff_t>(s) * layers_ + l) * experts_, l, out.row(l, s));
        }
      }
    } catch (const py::error_already_set& error) {
      refuse("loads", raised("the load source", error));
    }
  }

 private:
  // Loads of any scale as assignments per token: they sum to top-k.
  void fill(const double* loads, int layer, std::span<float> row) const {
    double sum = 0, most = 0;
    for (int e = 0; e < experts_; ++e) {
      sum += checked_load(loads[e], layer, e, "loads");
      most = std::max(most, loads[e]);
    }
    if (sum <= 0) {
      refuse("loads", fmt::format("layer {} has no load.", layer));
    }
    if (most * top_k_ > sum * kRoundingSlack) {
      refuse("loads", fmt::format("in layer {} an expert has {:.3g} of all assignments; a token chooses {} experts, so "
                                  "none has more than {:.3g}.",
                                  layer, most / sum, top_k_, 1.0 / top_k_));
    }
    for (int e = 0; e < experts_; ++e) {
      row[static_cast<std::size_t>(e)] = static_cast<float>(std::min(1.0, loads[e] * top_k_ / sum));
    }
  }

  std::shared_ptr<py::object> function_;
  int layers_, experts_, top_k_;
};

// The mean over the first steps, as routed assignments.
LoadWindow mean_of(const ExpertLoadSource& source, int dp_ranks) {
  const std::vector<std::int64_t> tokens(static_cast<std::size_t>(dp_ranks), kMeanTokens);
  LoadWindow out(source.layers(), source.experts());
  StepLoads drawn;
  for (int step = 0; step < kMeanSteps; ++step) {
    source.draw(StepAt(step), tokens, drawn);
    for (int l = 0; l < drawn.layers; ++l) {
      for (int s = 0; s < drawn.sources; ++s) {
        const std::span<const float> row = std::as_const(drawn).row(l, s);
        std::transform(row.begin(), row.end(), out.layer(l).begin(), out.layer(l).begin(),
                       [](float chance, double sum) { return sum + static_cast<double>(chance) * kMeanTokens; });
      }
    }
  }
  return out;
}

}  // namespace

std::string raised(const char* whose, const py::error_already_set& error) {
  if (error.matches(PyExc_KeyboardInterrupt)) {
    throw StudyInterrupted();
  }
  return fmt::format("{}'s function raised {}", whose, error.what());
}

std::shared_ptr<py::object> held(const py::object& value) {
  return {new py::object(value), [](py::object* object) {
            const py::gil_scoped_acquire lock;
            delete object;
          }};
}

LoadWindow window_of_array(const py::object& array, const std::string& key) {
  const auto given = numbers_of(array, key);
  if (given.ndim() != 2 || given.size() == 0) {
    refuse(key, "this is not an array [MoE layers, experts] of loads.");
  }
  LoadWindow out(static_cast<int>(given.shape(0)), static_cast<int>(given.shape(1)));
  for (int l = 0; l < out.layers(); ++l) {
    for (int e = 0; e < out.experts(); ++e) {
      out.layer(l)[static_cast<std::size_t>(e)] = checked_load(*given.data(l, e), l, e, key);
    }
  }
  return out;
}

std::shared_ptr<const ExpertLoadSource> function_loads(const std::shared_ptr<py::object>& function,
                                                       const Scenario& scenario) {
  return std::make_shared<const FunctionLoads>(function, scenario.model.moe_layers(), scenario.model.experts,
                                               scenario.model.top_k);
}

void Document::take_own_loads(Scenario& scenario) const {
  if (scenario.dispatch.collaborators > 0) {
    refuse("loads", "dispatch.collaborators reroutes tokens, and own loads have none; leave one of them out.");
  }
  scenario.loads = function_loads(loads_, scenario);
  scenario.run_window = mean_of(*scenario.loads, scenario.parallelism.dp_ranks());
  if (!plan_loads_) {
    return;
  }
  const MoeSpec& model = scenario.model;
  const LoadWindow& plan = *plan_loads_;
  if (plan.layers() != model.moe_layers() || plan.experts() != model.experts) {
    refuse("plan", fmt::format("the loads are of {} of {} experts, {} has {} of {}.", count_of(plan.layers(), "layer"),
                               plan.experts(), model.name, count_of(model.moe_layers(), "MoE layer"), model.experts));
  }
  if (const std::string problem = problem_of(plan, model); !problem.empty()) {
    refuse("plan", problem);
  }
  scenario.plan_window = plan;
}

void bind_loads(py::module_& m) {
  m.def(
      "loads_array",
      [](const py::object& array, const std::string& key) {
        window_of_array(array, key);
        return numbers_of(array, key);
      },
      py::arg("array"), py::arg("key"), "The array [MoE layers, experts] as float64, checked.");
}

}  // namespace epsim::python
