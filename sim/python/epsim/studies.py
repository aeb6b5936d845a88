"""The studies."""

from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Sequence

from . import _native
from .arguments import flag, named, number, refused, several, text, whole
from .errors import InputError
from .policies import Policy, given
from .results import Balance, Capacity, Comparison, Diagnosis, Goodput, Plan, Reproduction, Run, Sweep
from .scenario import Scenario, _file, _pairs, _plain, _text, assignments
from .traces import Trace


def _document(scenario: Any, overrides: Any) -> Any:
    """The scenario, or its file, which the study reads once."""
    if not isinstance(scenario, Scenario):
        return _native.Document(_file(scenario), assignments(overrides))
    return (scenario._changed(_pairs(overrides)) if overrides else scenario)._given()


_STRICT = {"strict-calibration": "strict_calibration"}


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
        mark = 10 * done // every if every else done  # every tenth; all, where their number is not known
        if mark != self.last and (done or every):
            self.last = mark
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
    with _Follow(progress, "requests") as follow, named(_STRICT):
        return Run(_native.run(_document(scenario, overrides), whole("threads", threads),
                               flag("strict_calibration", strict_calibration), follow))


def compare(scenario: Any, policies: Any, *, seeds: int = 1, only_listed: bool = False, overrides: Any = None,
            threads: int = 0, strict_calibration: bool = False, progress: Any = None) -> Comparison:
    """Runs several policies on the same requests and the same routing.

    policies: labels of the scenario's `policies:`, names of built-in policies (catalogue()) and functions with
    @epsim.policy, in any order; the first is what the others are compared with. seeds: seeds of requests and routing,
    from the scenario's own on. only_listed: run the policies listed and no others; otherwise a comparison of several also
    runs contiguous (load balancing off) and base (placement alone). progress: True, or a function of (runs ended, runs).
    The rest is as in run().
    """
    pairs = given(policies)
    with _Follow(progress, "runs") as follow, named(_STRICT):
        return Comparison(_native.compare(_document(scenario, overrides), pairs, whole("seeds", seeds),
                                          flag("only_listed", only_listed), whole("threads", threads),
                                          flag("strict_calibration", strict_calibration), follow))


def goodput(scenario: Any, policies: Any, *, slo: Optional[str] = None, rates: Optional[Sequence[Any]] = None,
            tolerance: float = 0.02, seeds: int = 3, only_listed: bool = False, folder: Any = None, overwrite: bool = False, overrides: Any = None,
            threads: int = 0, strict_calibration: bool = False, progress: Any = None) -> Goodput:
    """Finds the request rate that each policy sustains.

    slo: "ttft.p99<2s,tpot.mean<50ms": the highest rate at which it holds; without one the knee of mean TTFT.
    rates: requests/s to probe besides those that the search chooses, 10 or "10/s". tolerance: relative width at which it
    ends. folder: keeps each finished search, and the same call continues where it stopped; None: nothing is kept.
    progress: True, or a function of (rates probed, 0). The rest is as in compare().
    """
    pairs = given(policies)
    with _Follow(progress, "rates") as follow, named(_STRICT):
        return Goodput(_native.goodput(_document(scenario, overrides), pairs, text("slo", slo),
                                       [] if rates is None else [_rate(one) for one in several(rates)],
                                       number("tolerance", tolerance), whole("seeds", seeds),
                                       flag("only_listed", only_listed), text("folder", folder),
                                       flag("overwrite", overwrite), whole("threads", threads),
                                       flag("strict_calibration", strict_calibration), follow))


def sweep(scenario: Any, vary: Mapping[str, Sequence[Any]], policies: Any = None, *, measure: str = "run",
          slo: Optional[str] = None, tolerance: Optional[float] = None, only_listed: bool = False, folder: Any = None,
          overwrite: bool = False, retry_failed: bool = False, overrides: Any = None, threads: int = 0,
          progress: Any = None) -> Sweep:
    """Runs every combination of the values in `vary` under every policy.

    vary: {"requests.rate": ["4/s", "8/s"], "seed": [1, 2, 3]}; the last key changes fastest. policies: as in compare();
    None: the scenario's own. measure: "run", the figures of run(); "goodput", a search under one seed, with `slo` and
    `tolerance` as in goodput(). only_listed: as in compare(); one policy whose own keys vary is a comparison too. A
    point that fails is recorded with its error.
    folder: keeps each finished point at once, and the same call continues where it stopped; None: nothing is kept.
    progress: True, or a function of (points ended, points to run). The rest is as in run().
    """
    if not isinstance(vary, Mapping):
        raise refused("vary", 'a dict such as {"requests.rate": ["4/s", "8/s"]}', vary)
    axes = [(key, [_text(value) for value in several(values)]) for key, values in vary.items()]
    pairs = given(policies, needed=policies is not None)
    for name, value in (("slo", slo), ("tolerance", tolerance)):
        if value not in (None, "") and measure == "run":
            raise InputError(f"`{name}`: this is for measure='goodput'.", key=name)
    with _Follow(progress, "points") as follow:
        return Sweep(_native.sweep(_document(scenario, overrides), axes, pairs, text("measure", measure), text("slo", slo),
                                   number("tolerance", 0.02 if tolerance is None else tolerance),
                                   flag("only_listed", only_listed), text("folder", folder), flag("overwrite", overwrite),
                                   flag("retry_failed", retry_failed), whole("threads", threads), follow))


def _rate(value: Any) -> float:
    try:
        return float(str(value).removesuffix("/s"))
    except ValueError:
        raise InputError(f"`rates`: {value!r} is not a rate in requests/s, such as 10 or '10/s'.", key="rates") from None


def _word(value: Any) -> str:
    """A value as the program takes it: lists with commas."""
    return ",".join(str(one) for one in several(value))


def capacity(file: Any = None, *, model: Any = None, rate: Any = None, concurrency: Any = None, input_tokens: Any = None,
             output_tokens: Any = None, ttft: Any = None, tpot: Any = None, e2e: Any = None, slo: Any = None,
             times: Any = None, time_share: Any = None, growth: Any = None, spare: Any = None, budget: Any = None,
             power: Any = None, price: Any = None, terms: Any = None, kwh: Any = None, pue: Any = None,
             nodes: Any = None, sizes: Any = None, attention_tp: Any = None, ep_size: Any = None, engines: Any = None,
             dtypes: Any = None, modes: Any = None, policies: Any = None, vary: Any = None, max_nodes: Any = None, seeds: Any = None,
             quick: bool = False, overrides: Any = None,
             folder: Any = None, overwrite: bool = False, threads: int = 0, progress: Any = None) -> Capacity:
    """Finds what to rent for a demand and an SLO, how to run it, and what it costs.

    epsim.capacity(model="kimi-k2", rate="20/s", input_tokens=4096, output_tokens=500, ttft="p99=2s", tpot="p99=50ms")

    Each argument is the option of `epsim capacity` with its name, with its unit; lists may be Python lists (nodes=
    ["p5.48xlarge", "p5en.48xlarge"]); price: {"NODE": "31.6usd/h"}; vary: {"key": ["a", "b"]}. file: a YAML file
    with the same names as keys; arguments go before it. overrides: of every scenario. folder: keeps finished runs.
    progress: True, or a function of (designs settled, designs). The rest is as in run().
    """
    words = {"model": model, "rate": rate, "concurrency": concurrency, "input-tokens": input_tokens,
             "output-tokens": output_tokens, "ttft": ttft, "tpot": tpot, "e2e": e2e, "slo": slo, "times": times,
             "time-share": time_share, "growth": growth, "spare": spare, "budget": budget, "power": power,
             "terms": terms, "kwh": kwh, "pue": pue, "nodes": nodes, "sizes": sizes, "attention-tp": attention_tp,
             "ep-size": ep_size,
             "engines": engines, "dtypes": dtypes, "modes": modes, "policies": policies,
             "max-nodes": max_nodes, "seeds": seeds}
    if any(callable(one) for one in several(policies)):
        raise InputError("`policies`: names of policies; functions are not taken here, as recommended.yaml could not name "
                         "them.", key="policies")
    given_words = {name: [_word(value)] for name, value in words.items() if value is not None}
    if price is not None:
        given_words["price"] = assignments(price) if isinstance(price, Mapping) else list(map(str, several(price)))
    if vary:
        given_words["vary"] = [f"{key}={','.join(map(_text, several(values)))}" for key, values in vary.items()]
    if overrides:
        given_words["set"] = assignments(overrides)
    if flag("quick", quick):
        given_words["quick"] = []
    with _Follow(progress, "designs") as follow, named({name: name.replace("-", "_") for name in words if "-" in name}):
        return Capacity(_native.capacity(given_words, text("file", file), text("folder", folder),
                                         flag("overwrite", overwrite), whole("threads", threads), follow))


def reproduce(paper: Any, *, only: Optional[Sequence[str]] = None, quick: bool = False, sensitivity: bool = False,
              seeds: Optional[int] = None, overrides: Any = None, folder: Any = None, overwrite: bool = False,
              threads: int = 0, progress: Any = None) -> Reproduction:
    """Runs a paper's evaluation again and compares its claims with the result.

    paper: "craft", "grace", "libra", or a file of claims (docs/your-paper.md). only: ids of claims, all if None. quick:
    the setups and the fewer requests that the file names for it, one seed. sensitivity: also changes one input at a
    time. overrides: of every setup. folder: keeps finished searches. progress: True, or a function of (setups, of).
    """
    with _Follow(progress, "setups") as follow:
        return Reproduction(_native.reproduce(text("paper", paper),
                                              None if only is None else [text("only", one) for one in several(only)],
                                              None if seeds is None else whole("seeds", seeds), assignments(overrides),
                                              flag("quick", quick), flag("sensitivity", sensitivity),
                                              text("folder", folder), flag("overwrite", overwrite),
                                              whole("threads", threads), follow))


def plan(policy: Any, loads: Any = None, *, gpus: int, nodes: int = 1, model: Any = None, trace: Any = None,
         replicas: Optional[int] = None, replication_factor: Optional[int] = None, groups: Optional[int] = None,
         options: Optional[Mapping[str, Any]] = None, expert_bytes: Any = None, previous: Any = None,
         keep: Optional[str] = None, migration_limit: Optional[int] = None, seed: int = 0) -> Plan:
    """Runs a placement policy alone.

    policy: the name of a built-in one, or a function with @epsim.policy. loads: array [MoE layers, experts], routed
    assignments; or trace: a section of loads as in a scenario, for which `model` is named. gpus, nodes: of the instance.
    replicas: physical experts of a layer; or replication_factor: copies on a GPU over all layers. groups: expert groups;
    default: those of `model`.
    options: keys of the policy. expert_bytes: of one expert of one layer, where `model` does not say. previous: a plan
    file to migrate from; keep: none, slots, gpus or gpus_in_node; migration_limit: copies a GPU moves at a time.
    """
    policies = given(policy)
    if isinstance(policy, Policy):
        for key, value in (("replicas", replicas), ("replication_factor", replication_factor), ("options", options)):
            if value is not None:
                raise InputError(f"`{key}`: '{policy.name}' is a function, which gets loads and shape only.", key=key)
    if isinstance(previous, Plan):
        raise TypeError("`previous` takes the file of a plan: save() this one and pass its path")
    request = {"policy": "contiguous" if isinstance(policy, Policy) else policy, "num_gpus": gpus, "num_nodes": nodes,
               "model": text("model", model) or None, "trace": trace, "num_replicas": replicas,
               "replication_factor": replication_factor, "num_groups": groups, "options": options,
               "expert_bytes": expert_bytes, "previous": text("previous", previous) or None,
               "keep": keep, "migration_limit": migration_limit, "seed": seed,
               "weights": None if loads is None else _native.loads_array(loads, "loads").tolist()}
    document = json.dumps({key: value for key, value in request.items() if value is not None}, default=_plain)
    with named(_PLAN_KEYS, document="plan"):
        return Plan(_native.plan(document, policies))


# Keys of the program's file of a request, as plan() has them.
_PLAN_KEYS = {"num_gpus": "gpus", "num_nodes": "nodes", "num_replicas": "replicas", "num_groups": "groups",
              "weights": "loads"}


def balance(scenario: Any, policies: Any = None, *, overrides: Any = None) -> Balance:
    """Plans every policy on the scenario's `plan_loads` and scores the plans on its `loads`, without serving a request.

    policies: as in compare(); None: the scenario's own. Balancedness is mean / max GPU load, 1 = perfect.
    """
    return Balance(_native.balance(_document(scenario, overrides), given(policies, needed=policies is not None)))


def diagnose(counts: Any, later: Any = None, *, scenario: Any = None, model: Any = None, node: str = "DGX-H200",
             nodes: Optional[int] = None, format: str = "auto", seeds: int = 3, worth: float = 2.5, overrides: Any = None,
             threads: int = 0) -> Diagnosis:
    """Should EPLB be on? Answers from recorded expert counts (docs/diagnose.md).

    counts: a Trace, or a recording that traces.read() takes; policies plan from it and are scored on `later`, or on its
    second half. format: of both, its name or auto. scenario: a Scenario, or its file, in which the counts take the place
    of the loads; without one SGLang serves `model` (None: the one of the counts' shape) on nodes x `node` (None: the
    fewest that hold it). worth: gain in % below which nothing is worth turning on. overrides, seeds, threads: as in
    compare().
    """
    if isinstance(scenario, Scenario):
        if scenario._own:
            raise InputError("`scenario`: its loads are a function, which counts cannot replace.", key="scenario")
        overrides = scenario._document.assignments() + assignments(overrides)
        scenario = scenario._document.file()
    return Diagnosis(_native.diagnose(_recording("counts", counts), _recording("later", later), _title(counts),
                                      _title(later), text("format", format), text("scenario", scenario),
                                      text("model", model), text("node", node),
                                      None if nodes is None else whole("nodes", nodes), assignments(overrides),
                                      whole("seeds", seeds), number("worth", worth), whole("threads", threads)))


def _recording(name: str, trace: Any) -> str:
    if trace is not None and hasattr(trace, "__array__"):
        raise refused(name, 'a Trace or the file of a recording; json.dump({"logical_count": counts.tolist()}, file) '
                            "writes one", trace)
    return trace.path if isinstance(trace, Trace) else text(name, trace)


def _title(trace: Any) -> str:
    return trace._title if isinstance(trace, Trace) else ""


def catalogue() -> dict[str, dict[str, str]]:
    """What scenarios may name: models, nodes, gpus, placement_policies, step_policies, ceilings, replica_choices, each
    a dict from a name to a sentence."""
    return _native.catalogue()
