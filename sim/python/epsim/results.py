"""Results: the metric table's figures as attributes, series and maps as NumPy arrays."""

from __future__ import annotations

import difflib
import html
import os
from typing import Any

from .answers import (_METRICS, _UNITS, Figures, Report, _Answer, _bars, _ByPolicy, _frame, _pandas, _Result, _row_of,
                      _scenario, _table, _table_of, leave_no_folder)

_SHOWN = ["ttft_mean_ms", "tpot_mean_ms", "output_tokens_per_s", "requests_per_s", "kv_lost_to_copies_share"]


class Run(_Result):
    """One policy's run. Every metric is an attribute: run.ttft_mean_ms; units() and help(epsim.Run) say their units.

    None where a figure has no value (a mean over no request).
    """

    scenario = _scenario

    def __init__(self, native: Any):
        super().__init__(native)
        self._figures = native.figures()

    @property
    def label(self) -> str:
        """The policy's label."""
        return self._native.label

    @property
    def seed(self) -> int:
        """Seed of every random stream."""
        return self._native.seed

    @property
    def warnings(self) -> list[str]:
        """Settings that the engine would refuse or change."""
        return self._native.warnings

    @property
    def carried_over(self) -> list[str]:
        """What was measured on other hardware, and why that stands in."""
        return self._native.carried_over

    @property
    def figures(self) -> dict[str, Any]:
        """All metrics by name; units() has their units."""
        return dict(self._figures)

    @property
    def requests(self) -> dict[str, Any]:
        """Arrays [requests], in the trace's order, over the run's own memory (read only): dp_rank (a copy; -1: none), state
        (0 waiting, 1 running, 2 completed, 3 failed), input_tokens, output_tokens, cached_tokens, arrival_ps, admitted_ps,
        first_token_ps, finished_ps (picoseconds since the start of the run), retractions, retries."""
        return self._native.requests()

    @property
    def series(self) -> dict[str, Any]:
        """Arrays [stretches of time] over the run's own memory (read only): start_s, length_s, running_requests,
        queued_requests, kv_use_share (means over the stretch), output_tokens, first_tokens, ttft_sum_s (of these)."""
        return self._native.series()

    @property
    def maps(self) -> dict[str, Any]:
        """gpu_assignments [MoE layers, GPUs], gpu_expert_busy_s [MoE layers, GPUs] and link_bound_s [MoE layers,
        (dispatch, combine), links], in seconds, over the run's own memory (read only); balancedness [columns of steps,
        MoE layers], mean over maximum GPU load, a copy."""
        return self._native.maps()

    @property
    def links(self) -> list[dict]:
        """name, bytes carried and data-sheet rate (bytes/s) of every link, in the order of maps["link_bound_s"]."""
        return self._native.links()

    @property
    def memory(self) -> list[tuple[str, float]]:
        """The static memory of the fullest GPU: (item, bytes)."""
        return self._native.memory()

    def to_pandas(self, what: str = "figures") -> Any:
        """A DataFrame: "figures" (one row, a column per metric), "requests" or "series" (one row each)."""
        if what not in ("figures", "requests", "series"):
            raise ValueError(f"'{what}' is none of figures, requests, series")
        if what == "figures":
            return _frame([self.figures], index=[self.label])
        return _pandas().DataFrame(getattr(self, what))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, dir(self), n=3)
        raise AttributeError(f"a run has no '{name}'; " + (f"the nearest are {', '.join(near)}" if near else
                                                          "epsim.metrics() lists its figures"))

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(_UNITS))

    def __repr__(self) -> str:
        return f"<epsim.Run {self.label} of {self.scenario}>"

    def _repr_html_(self) -> str:
        rows = [[name, self._figures[name], _UNITS[name]] for name in _SHOWN if name in self._figures]
        parts = [(row["name"], self._figures[row["name"]]) for row in _METRICS
                 if row["section"] == "time_by_part" and row["unit"] == "s" and self._figures[row["name"]]]
        chart = _bars(parts, "s") if parts else ""
        return f"<b>{html.escape(repr(self))}</b>{_table(['figure', 'value', 'unit'], rows)}{chart}"


def _metric_property(row: dict) -> property:
    name = row["name"]
    unit = f" Unit: {row['unit']}." if row["unit"] else ""
    return property(lambda run: run._figures[name], doc=row["text"] + unit)


for _row in _METRICS:
    if not hasattr(Run, _row["name"]):
        setattr(Run, _row["name"], _metric_property(_row))


class Comparison(_ByPolicy, _Result):
    """Several policies on the same requests and the same routing: comparison["eplb"] is a Run of the first seed."""

    scenario = _scenario

    def __init__(self, native: Any):
        super().__init__(native)
        self._labels = native.labels()

    @property
    def labels(self) -> list[str]:
        """The policies, in the order given; the first is what the others are compared with."""
        return list(self._labels)

    @property
    def seeds(self) -> list[int]:
        """All seeds, the scenario's own first."""
        return self._native.seeds

    def __getitem__(self, label: str) -> Run:
        if label not in self._labels:
            raise KeyError(f"'{label}' was not compared; there are {', '.join(self._labels)}")
        return Run(self._native.run(self._labels.index(label)))

    @property
    def conclusion(self) -> str:
        """The conclusion in words."""
        return self._native.conclusion()

    def to_pandas(self) -> Any:
        """A DataFrame with a row per (policy, seed) and a column per metric."""
        pandas = _pandas()
        rows = [self._native.figures(p, s) for p in range(len(self._labels)) for s in range(len(self.seeds))]
        index = pandas.MultiIndex.from_product([self._labels, self.seeds], names=["policy", "seed"])
        return _frame(rows, index=index)

    def __repr__(self) -> str:
        return f"<epsim.Comparison of {', '.join(self._labels)} on {self.scenario}>"

    def _repr_html_(self) -> str:
        shown = [name for name in _SHOWN if name in _UNITS]
        figures = [self._native.figures(p, 0) for p in range(len(self._labels))]
        table = _table(["policy"] + [f"{name} ({_UNITS[name]})" for name in shown],
                       [[label] + [run[name] for name in shown] for label, run in zip(self._labels, figures)])
        bars = [(label, run["ttft_mean_ms"]) for label, run in zip(self._labels, figures) if run["ttft_mean_ms"]]
        words = "".join(f"<p>{html.escape(text)}</p>" for text in self.conclusion.split("\n\n"))
        return f"<b>{html.escape(repr(self))}</b>{table}{_bars(bars, 'ms mean TTFT')}{words}"


class Goodput(_ByPolicy, _Result):
    """The request rate that each policy sustains: found["eplb"].slo_requests_per_s.mean, or without an SLO
    found["eplb"].knee.knee_requests_per_s.mean.

    Tables: knees, a row for each policy and seed; curve, a row for each rate that was run."""

    scenario = _scenario

    @property
    def labels(self) -> list[str]:
        """The policies, in the order given."""
        return self._native.labels()

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return self._native.seeds

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """By name, each a dict of columns: float64 arrays (NaN where a cell is empty), or lists of text."""
        return self._native.tables()

    def __getitem__(self, label: str) -> Figures:
        return _row_of(self, label)

    def __repr__(self) -> str:
        return f"<epsim.Goodput of {', '.join(self.labels)} on {self.scenario}>"

    def to_pandas(self, table: Any = None) -> Any:
        """A DataFrame of a table; None: a row for each policy, over seeds, as the `policies` of goodput.json."""
        if table is not None:
            return _pandas().DataFrame(_table_of(self, table))
        return _frame(_pandas().json_normalize(self.to_dict()["policies"]))

    def _chart(self) -> str:
        rates = {row["policy"]: (row["slo_requests_per_s"] if "slo_requests_per_s" in row else
                                 row["knee"]["knee_requests_per_s"])["mean"] for row in self.to_dict()["policies"]}
        return _bars([(label, rate) for label, rate in rates.items() if rate is not None], "requests/s")


class _FolderResult(_Result):
    """A study with a folder of its own."""

    def __init__(self, native: Any):
        super().__init__(native)
        leave_no_folder(native, native.temporary)

    @property
    def folder(self) -> str:
        """Its folder; a temporary one, which goes with the result, where none was named."""
        return self._native.folder

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """By name, each a dict of columns: float64 arrays (NaN where a cell is empty), or lists of text."""
        return self._native.tables()

    def to_pandas(self, table: Any = None) -> Any:
        """A DataFrame of a table; None: the first of `tables`."""
        return _pandas().DataFrame(_table_of(self, table or next(iter(self.tables))))

    def save(self, folder: Any, overwrite: bool = False) -> None:
        """Copies its folder to `folder`."""
        self._native.save(os.fspath(folder), overwrite)


class Sweep(_FolderResult):
    """A sweep. Tables: results, a row for each point; intervals with several seeds; winners, the best policy at each
    combination, with several policies; knees and curve of searches."""

    def __repr__(self) -> str:
        return f"<epsim.Sweep of {len(self.tables['results']['point'])} points>"

    def _chart(self) -> str:
        results = self.tables["results"]
        figure = next((name for name in ("slo_requests_per_s", "knee_requests_per_s", "ttft_mean_ms") if name in results),
                      None)
        if figure is None or len(results["point"]) > 40:
            return ""
        unit = _UNITS.get(figure, "requests/s") + " " + figure
        lead = list(results)[1:list(results).index("error")] if "error" in results else []
        labels = [", ".join(str(results[name][row]) for name in lead) for row in range(len(results["point"]))]
        return _bars([(label, float(value)) for label, value in zip(labels, results[figure]) if value == value], unit)


class Capacity(_FolderResult):
    """What to rent. Tables: candidates (every design, with the reason where it was rejected), deployments (the
    recommended first), prices, what_ifs."""

    @property
    def feasible(self) -> bool:
        """Whether a deployment of the search space meets demand, SLO and budgets."""
        return self.to_dict()["feasible"]

    def _chart(self) -> str:
        table = self.tables["deployments"]
        rows = [(f"{nodes:.0f} x {node}", float(cost)) for node, nodes, cost in
                zip(table["node"], table["nodes_of_deployment"], table["usd_per_hour"]) if cost > 0]
        return _bars(rows, "usd/h") if rows else ""


class Reproduction(_FolderResult):
    """A paper's claims with their values and verdicts."""

    @property
    def claims(self) -> list[dict]:
        """The rows: claim, what, paper, value, low, high, verdict and the rest of claims.json."""
        return self.to_dict()["claims"]

    def to_pandas(self, table: Any = None) -> Any:
        """A DataFrame with a row for each figure of a claim."""
        return _frame(self.claims)

    def _chart(self) -> str:
        verdicts = [row["verdict"] for row in self.claims]
        return _bars([(verdict, verdicts.count(verdict)) for verdict in dict.fromkeys(verdicts)], "figures")


class Plan(_Answer):
    """A plan of a placement policy. Arrays are read only, over the plan's own memory."""

    @property
    def policy(self) -> str:
        """The policy's name."""
        return self._native.policy

    @property
    def slots(self) -> list[Any]:
        """For each MoE layer an int32 array [slots] of experts, GPU by GPU."""
        return self._native.slots()

    @property
    def first_slots(self) -> list[Any]:
        """For each MoE layer an int32 array [GPUs + 1]: GPU g has slots first[g] to first[g + 1] - 1."""
        return self._native.first_slots()

    @property
    def copies(self) -> Any:
        """int32 array [MoE layers, experts]: physical copies of each expert."""
        return self._native.copies()

    @property
    def balancedness_before(self) -> Any:
        """float64 array [MoE layers]: mean / max GPU load with experts in order and no copies."""
        return self._native.before()

    @property
    def balancedness(self) -> Any:
        """float64 array [MoE layers]: mean / max GPU load with this plan, on the loads that it was made from."""
        return self._native.after()

    def explain(self) -> str:
        """Layer by layer why the plan is as it is, as text."""
        return self._native.explain()

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each MoE layer: balancedness_before, balancedness, slots."""
        return _pandas().DataFrame({"balancedness_before": self.balancedness_before, "balancedness": self.balancedness,
                                    "slots": [len(layer) for layer in self.slots]}).rename_axis(index="moe_layer")

    def save(self, path: Any, format: str = "epsim", overwrite: bool = False) -> None:
        """Writes the plan file; format: epsim, or that of an engine: sglang, trtllm, vllm, vllm-ascend."""
        content = self._native.file(format)
        with open(os.fspath(path), "wb" if overwrite else "xb") as out:
            out.write(content)

    def report(self) -> Report:
        """The report of `epsim report` on this plan, for a cell or a file."""
        return Report(self._native.report())

    def _chart(self) -> str:
        rows = [("experts in order", float(self.balancedness_before.mean())), (self.policy, float(self.balancedness.mean()))]
        return _bars(rows, "balancedness, mean of layers")


class Balance(_ByPolicy, _Answer):
    """Balancedness and KV room of several policies' plans: balanced["eplb"].balancedness_mean."""

    @property
    def labels(self) -> list[str]:
        """The policies, in the order given."""
        return [row["policy"] for row in self.to_dict()["policies"]]

    def __getitem__(self, label: str) -> Figures:
        return _row_of(self, label)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each policy."""
        return _frame(self.to_dict()["policies"]).set_index("policy")

    def _chart(self) -> str:
        return _bars([(row["policy"], row["balancedness_mean"]) for row in self.to_dict()["policies"]], "balancedness")


class Diagnosis(_Answer):
    """Whether EPLB should be on. to_dict() has skew, stability, gains (shares), requests_per_s by seed, and cost."""

    @property
    def answer(self) -> str:
        """"ON", "OFF" or "UNSURE"."""
        return self.to_dict()["answer"]

    def to_pandas(self) -> Any:
        """A DataFrame of completed requests/s in saturation: a row for each seed; in_order, placement, copies and
        perfect_balance."""
        return _pandas().DataFrame(self.to_dict()["requests_per_s"]).rename_axis(index="seed_number")

    def _chart(self) -> str:
        rates = self.to_dict()["requests_per_s"]
        return _bars([(name, sum(values) / len(values)) for name, values in rates.items()], "requests/s in saturation")
