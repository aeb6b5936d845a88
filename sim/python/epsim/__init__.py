"""epsim: a discrete-event simulator of Mixture-of-Experts expert parallelism in LLM serving.

    scenario = epsim.load("experiments/quickstart/deepseek-r1-p4de.yaml", {"requests.rate": "1/s"})
    compared = epsim.compare(scenario, ["base", "eplb", "craft"], seeds=3)
    compared["eplb"].ttft_mean_ms

epsim.units() has the unit of every figure, epsim.metrics() its definition too.
"""

from . import traces
from ._native import version as __version__
from .answers import Figures, Report, metrics, units
from .errors import InputError, RunFailed
from .policies import Policy, Shape, StepPolicy, policy, step_policy
from .results import Balance, Capacity, Comparison, Diagnosis, Goodput, Plan, Reproduction, Run, Sweep
from .scenario import Scenario, Section, load
from .studies import balance, capacity, catalogue, compare, diagnose, goodput, plan, reproduce, run, sweep

__all__ = [
    "Balance", "Capacity", "Comparison", "Diagnosis", "Figures", "Goodput", "InputError", "Plan", "Policy", "Report",
    "Reproduction", "Run", "RunFailed", "Scenario", "Section", "Shape", "StepPolicy", "Sweep", "balance", "capacity",
    "catalogue", "compare", "diagnose", "goodput", "load", "metrics", "plan", "policy", "reproduce", "run", "step_policy",
    "sweep", "traces", "units",
]
