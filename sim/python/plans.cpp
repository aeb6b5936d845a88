// Policies alone: a plan from loads, and how well plans balance.
#include "policies/plan_tools.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/python/bindings.h"
#include "sim/report/html_report.h"
#include "sim/verbs/balance.h"
#include "sim/verbs/plan_explain.h"
#include "sim/verbs/plan_report.h"
#include "sim/verbs/plan_request.h"

namespace epsim::python {
namespace {

struct Plan {
  PlanRequest request;
  PlacementPlan plan;
  PlanFigures figures;
};

// `text`: the request as JSON, with a built-in policy in the place of a function.
std::shared_ptr<Plan> make_python_plan(const std::string& text, const PolicyGiven& given) {
  auto out = std::make_shared<Plan>();
  out->request = read_plan_request(Config::from_text(text, "plan"));
  if (given.is_python()) {
    refuse_if(!given.per_step.is_none(), "policy", "a policy that acts in every step plans nothing ahead.");
    out->request.policy = given.label;
    out->request.placement = python_placement(given.label, given.function);
  }
  {
    const py::gil_scoped_release unlock;
    out->plan = make_plan(out->request);
    out->figures = plan_figures(out->plan, out->request);
  }
  if (given.is_python()) {  // a plan needs its function no more, and Python's collector would not see it here
    out->request.placement = python_placement(given.label, py::none());
  }
  return out;
}

// The expert in each slot, GPU by GPU: one view for each layer, as layers may differ in their slots.
py::list slots_of(const std::shared_ptr<const Plan>& p) {
  const Views views(p);
  py::list out;
  for (const LayerPlan& layer : p->plan.layers) {
    out.append(views.table(layer.slots, {static_cast<py::ssize_t>(layer.slots.size())}));
  }
  return out;
}

py::list first_slots_of(const std::shared_ptr<const Plan>& p) {
  const Views views(p);
  py::list out;
  for (const LayerPlan& layer : p->plan.layers) {
    out.append(views.table(layer.first_slot, {static_cast<py::ssize_t>(layer.first_slot.size())}));
  }
  return out;
}

py::array_t<int> copies_of(const Plan& p) {
  py::array_t<int> out({static_cast<int>(p.plan.layers.size()), p.plan.experts});
  for (std::size_t l = 0; l < p.plan.layers.size(); ++l) {
    const std::vector<int> copies = copies_by_expert(p.plan.layers[l], p.plan.experts);
    std::copy(copies.begin(), copies.end(), out.mutable_data(l, 0));
  }
  return out;
}

py::array series(const std::shared_ptr<const Plan>& p, const std::vector<double>& values) {
  return Views(p).table(values, {static_cast<py::ssize_t>(values.size())});
}

std::string report_on_plan(const Plan& p) {
  const py::gil_scoped_release unlock;
  const TemporaryFolder temporary("epsim-report-");
  const std::filesystem::path file = temporary / (p.plan.policy + ".json");  // the report's title
  write_file_atomically(file, plan_file(p.plan, p.request, p.figures, kOwnPlanFormat));
  return report_of(file, EPSIM_VERSION);
}

struct Balance {
  std::string text, json;
};

Balance balance(const Document& document, const py::list& policies) {
  const std::vector<PolicyGiven> given = policies_given(policies);
  Balance out;
  in_background(0, py::none(), [&](const Follow&) {
    const Inputs inputs = inputs_with(document, given);
    const Scenario& scenario = inputs.by_seed.front();
    const std::vector<BalanceRow> rows = balance_of(scenario);
    out = {balance_text(scenario, rows), balance_json(scenario, rows)};
  });
  return out;
}

}  // namespace

void bind_plans(py::module_& m) {
  py::class_<Plan, std::shared_ptr<Plan>>(m, "Plan")
      .def_property_readonly("policy", [](const Plan& p) { return p.plan.policy; })
      .def_property_readonly("gpus", [](const Plan& p) { return p.plan.gpus; })
      .def("slots", [](const std::shared_ptr<Plan>& p) { return slots_of(p); })
      .def("first_slots", [](const std::shared_ptr<Plan>& p) { return first_slots_of(p); })
      .def("copies", &copies_of)
      .def("before", [](const std::shared_ptr<Plan>& p) { return series(p, p->figures.before); })
      .def("after", [](const std::shared_ptr<Plan>& p) { return series(p, p->figures.after); })
      .def("text", [](const Plan& p) { return plan_summary(p.plan, p.request, p.figures); })
      .def("explain", [](const Plan& p) { return explain_plan(p.plan, p.request, p.figures); })
      .def("json", [](const Plan& p) { return plan_json(p.plan, p.request, p.figures); })
      .def("report", &report_on_plan)
      .def("file", [](const Plan& p, const std::string& format) {
        return py::bytes(plan_file(p.plan, p.request, p.figures, format));
      });
  m.def(
      "plan",
      [](const std::string& text, const py::list& policy) {
        return make_python_plan(text, policies_given(policy).front());
      },
      py::arg("text"), py::arg("policy"));
  py::class_<Balance>(m, "Balance")
      .def("text", [](const Balance& b) { return b.text; })
      .def("json", [](const Balance& b) { return b.json; });
  m.def("balance", &balance, py::arg("document"), py::arg("policies"));
}

}  // namespace epsim::python
