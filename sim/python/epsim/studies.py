"""The studies: run, compare, goodput."""

from __future__ import annotations

from typing import Any, Optional

from . import _native
from .policies import given
from .results import Comparison, Goodput, Run
from .scenario import Scenario, load


def _document(scenario: Any, overrides: Any) -> Any:
    if not isinstance(scenario, Scenario):
        scenario = load(scenario)
    return (scenario.with_(overrides) if overrides else scenario)._document


class _Follow:
    """progress=True: a bar by tqdm where there is one, else lines; a function gets (done, all)."""

    def __init__(self, progress: Any, unit: str):
        self.call, self.bar, self.unit = None, None, unit
        if callable(progress):
            self.call = progress
        elif progress:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                self.call = self._print
            else:
                self.bar = tqdm(unit=unit)
                self.call = self._advance
        self.last = -1

    def _advance(self, done: int, every: int) -> None:
        self.bar.total = every or None
        self.bar.update(done - self.bar.n)

    def _print(self, done: int, every: int) -> None:
        tenth = 10 * done // every if every else 0
        if tenth != self.last:
            self.last = tenth
            print(f"{done} of {every or '?'} {self.unit}", flush=True)

    def __enter__(self) -> Any:
        return self.call

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()


def run(scenario: Any, overrides: Any = None, *, threads: int = 0, strict_calibration: bool = False,
        progress: Any = None) -> Run:
    """Runs the scenario under its own `policy`.

    scenario: from epsim.load(), or a file. overrides: values for this run alone. threads: 0 = all cores.
    strict_calibration: refuses what is priced outside of measurements. progress: True, or a function of
    (requests completed, requests of the trace).
    Other Python threads go on meanwhile; Ctrl-C ends the run with KeyboardInterrupt.
    """
    with _Follow(progress, "requests") as follow:
        return Run(_native.run(_document(scenario, overrides), threads, strict_calibration, follow))


def compare(scenario: Any, policies: Any, *, seeds: int = 1, overrides: Any = None, threads: int = 0,
            strict_calibration: bool = False, progress: Any = None) -> Comparison:
    """Runs several policies on the same requests and the same routing.

    policies: labels of the scenario's `policies:`, names of built-in policies (catalogue()) and functions with
    @epsim.policy, in any order; the first is what the others are compared with. seeds: seeds of requests and routing,
    from the scenario's own on. progress: True, or a function of (runs ended, runs).
    The rest is as in run().
    """
    pairs = given(policies)
    with _Follow(progress, "runs") as follow:
        return Comparison(_native.compare(_document(scenario, overrides), pairs, seeds, threads, strict_calibration,
                                          follow))


def goodput(scenario: Any, policies: Any, *, slo: str = "", rates: Optional[list[float]] = None, tolerance: float = 0.02,
            seeds: int = 3, overrides: Any = None, threads: int = 0, strict_calibration: bool = False,
            progress: Any = None) -> Goodput:
    """Finds the request rate that each policy sustains.

    slo: "ttft.p99<2s,tpot.mean<50ms": the highest rate at which it holds; without one the knee of mean TTFT.
    rates: requests/s to probe besides those that the search chooses. tolerance: relative width at which it ends.
    progress: True, or a function of (rates probed, 0). The rest is as in compare().
    """
    pairs = given(policies)
    with _Follow(progress, "rates") as follow:
        return Goodput(_native.goodput(_document(scenario, overrides), pairs, slo, list(rates or []), tolerance, seeds,
                                       threads, strict_calibration, follow))


def catalogue() -> dict[str, dict[str, str]]:
    """What scenarios may name: models, nodes, gpus, placement_policies, step_policies, ceilings, replica_choices, each
    a dict from a name to a sentence."""
    return _native.catalogue()
