"""epsim: a discrete-event simulator of Mixture-of-Experts expert parallelism in LLM serving.

    scenario = epsim.load("experiments/quickstart/deepseek-r1-p4de.yaml", {"requests.rate": "1/s"})
    compared = epsim.compare(scenario, ["base", "eplb", "craft"], seeds=3)
    compared["eplb"].ttft_mean_ms

epsim.units() has the unit of every figure, epsim.metrics() its definition too.
"""

from ._native import version as __version__
from .errors import InputError, RunFailed
from .policies import Policy, Shape, policy
from .results import Comparison, Goodput, Report, Run, metrics, units
from .scenario import Scenario, Section, load
from .studies import catalogue, compare, goodput, run

__all__ = [
    "Comparison", "Goodput", "InputError", "Policy", "Report", "Run", "RunFailed", "Scenario", "Section", "Shape",
    "catalogue", "compare", "goodput", "load", "metrics", "policy", "run", "units",
]
