"""Traces of expert routing: read, fit a routing model, generate from one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Optional, Sequence

from . import _native
from .arguments import flag, named, refused, several, text, whole
from .errors import InputError
from .answers import _Answer, _bars, _frame, _Native, _pandas, _read, leave_no_folder


_ALL = 2**63 - 1


def _range(name: str, given: Any) -> tuple[int, int]:
    """First and count of (first, end), all of None."""
    if given is None:
        return 0, _ALL
    try:
        first, end = (whole(name, one, -_ALL, _ALL) for one in given)
    except (TypeError, ValueError):
        raise refused(name, "a pair (first, end) of whole numbers", given) from None
    if not 0 <= first < end:
        raise InputError(f"`{name}`: ({first}, {end}) is no range (first, end) with 0 <= first < end.", key=name)
    return first, end - first


_MOST_CELLS = 2048  # that a heat map in a notebook's cell shows: 240 kB


class Trace(_Native):
    """A routing trace: load rows (steps), single tokens, or both. Arrays are read only, over the trace's own memory."""

    def __init__(self, native: Any, title: str):
        super().__init__(native)
        self._title = title
        leave_no_folder(native, native.temporary)

    @property
    def info(self) -> dict[str, Any]:
        """model, model_layers, layer_numbers (of each recorded layer in the model), experts, top_k, shared_experts,
        source, licence, recipe."""
        return self._native.info()

    @property
    def path(self) -> str:
        """The trace file; a temporary one for recordings of other programs and generated traces."""
        return self._native.path

    @property
    def loads(self) -> Any:
        """float64 array [rows, layers, source ranks, experts]: routed assignments; no rows where there are tokens
        alone."""
        return self._native.loads()

    @property
    def tokens(self) -> Any:
        """int64 array [rows, source ranks]: tokens of each row."""
        return self._native.tokens()

    @property
    def experts(self) -> Any:
        """uint16 array [tokens, layers, top-k]: the experts of single tokens."""
        return self._native.experts()

    @property
    def sequence(self) -> Any:
        """int32 array [tokens]: the sequence that each token is of."""
        return self._native.sequence()

    def to_dict(self) -> dict[str, Any]:
        """Shape, totals and skew as `epsim trace info --json` prints them."""
        return _read(self._native.json())

    def to_pandas(self) -> Any:
        """A DataFrame [layer, expert] of routed assignments, summed over rows and source ranks or counted from tokens."""
        import numpy

        experts, numbers = self.info["experts"], self.info["layer_numbers"]
        loads = self.loads.sum(axis=(0, 2))
        if not len(self.loads):
            loads = numpy.stack([numpy.bincount(self.experts[:, layer].ravel(), minlength=experts)
                                 for layer in range(len(numbers))])
        frame = _pandas().DataFrame(loads, index=numbers)
        return frame.rename_axis(index="layer", columns="expert")

    def slice(self, rows: Any = None, tokens: Any = None, layers: Sequence[int] = ()) -> "Trace":
        """A part of it: rows and tokens as (first, end), the end left out, None for all; layers by their numbers in the
        model, () for all."""
        with self._nameless():
            part = self._native.slice(_range("rows", rows), _range("tokens", tokens),
                                      [whole("layers", layer) for layer in several(layers)])
        return Trace(part, f"part of {self._title}")

    def save(self, path: Any, format: str = "epsim", overwrite: bool = False) -> None:
        """Writes the trace; format: epsim (HDF5, traces/FORMAT.md), or one of `epsim trace convert --help`."""
        with self._nameless():
            self._native.save(os.fspath(path), text("format", format), flag("overwrite", overwrite))

    def _nameless(self) -> Any:
        return named({}, self.path if self._native.temporary else "")

    def __str__(self) -> str:
        return self._title + "\n" + self._native.text().partition("\n")[2]

    def __repr__(self) -> str:
        return f"<epsim.traces.Trace: {self._title}>"

    def _repr_html_(self) -> str:
        from html import escape

        numbers = self.info["layer_numbers"]
        step = -(-len(numbers) * self.info["experts"] // _MOST_CELLS)
        note = "" if step == 1 else f"<p>The picture has {len(numbers[::step])} of {len(numbers)} layers.</p>"
        return f"<pre>{escape(str(self))}</pre>{note}{self._native.heatmap(step)}"


class RoutingModel:
    """A fitted routing model; generate() draws from it, `loads: {kind: model, path: FILE}` serves it."""

    def __init__(self, yaml: str):
        self.yaml = yaml

    def save(self, path: Any) -> None:
        """Writes the model's YAML file."""
        with open(os.fspath(path), "w", encoding="utf-8") as out:
            out.write(self.yaml)

    def __str__(self) -> str:
        return self.yaml

    def __repr__(self) -> str:
        return f"<epsim.traces.RoutingModel: {len(self.yaml.splitlines())} lines of YAML>"


class TraceComparison(_Answer):
    """The statistics of two traces, a and b, that matter for expert parallelism.

    deviation_share: |b / a - 1|; where deviation_by_layer, its mean over layers, which a and b, themselves means over
    layers, do not give. deviation: |b - a|.
    """

    @property
    def goodness(self) -> float:
        """1 = alike in every statistic; the mean over them of max(0, 1 - deviation)."""
        return self.to_dict()["goodness"]

    def __repr__(self) -> str:
        return f"<epsim.traces.TraceComparison: goodness {self.goodness:.3g}>"

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each statistic: a, b, and deviation_share or deviation."""
        return _frame(self.to_dict()["statistics"]).set_index("statistic")

    def _chart(self) -> str:
        rows = self.to_dict()["statistics"]
        return _bars([(row["statistic"], row.get("deviation_share", row.get("deviation"))) for row in rows], "deviation")


def compare(a: Any, b: Any, format: str = "auto", **options: Any) -> TraceComparison:
    """Compares two traces (each a Trace, or a path that read() takes): do they look alike to expert parallelism?

    format and options are read()'s, for paths.
    """
    a, b = (one if isinstance(one, Trace) else read(one, format, **options) for one in (a, b))
    return TraceComparison(_native.compare_traces(a._native, b._native))


def read(path: Any, format: str = "auto", *, model: str = "", model_layers: int = 0, experts: int = 0, top_k: int = 0,
         layers: int = 0, layer_numbers: Sequence[int] = (), sequences: Any = None, source: str = "",
         licence: str = "") -> Trace:
    """Reads a trace file, or a recording that `epsim trace import` reads (format: its name, or auto).

    The other arguments are what a recording does not say about itself: the model and its transformer layers, routed
    experts of a layer, experts of a token, recorded layers, their numbers in the model, a table of sequences.
    """
    numbers = {"model_layers": model_layers, "experts": experts, "top_k": top_k, "layers": layers}
    texts = {"model": model, "sequences": sequences, "source": source, "licence": licence}
    options = {**{name: whole(name, value) for name, value in numbers.items()},
               **{name: text(name, value) for name, value in texts.items()},
               "layer_numbers": [whole("layer_numbers", one) for one in several(layer_numbers)]}
    path = os.fspath(path)
    return Trace(_native.read_trace(path, text("format", format), options), path)


def fit(trace: Any, name: Optional[str] = None) -> RoutingModel:
    """Fits a routing model to a trace (a Trace, or a path that read() takes).

    From single tokens every part is fitted; from loads alone popularity is, and the model lists what is assumed.
    """
    if not isinstance(trace, Trace):
        name, trace = name or os.path.splitext(os.path.basename(os.fspath(trace)))[0], read(trace)
    return RoutingModel(_native.fit_trace(trace._native, name or "fitted"))


def generate(model: Any, *, rows: Optional[int] = None, tokens: Optional[int] = None, sources: int = 8,
             tokens_per_row: int = 4096, seed: int = 1) -> Trace:
    """Draws a trace from a RoutingModel, a model file or a preset (presets()).

    Either rows: load rows (steps), each of `sources` ranks with tokens_per_row tokens; or tokens: single tokens.
    """
    if (rows is None) == (tokens is None):
        raise InputError("`rows`: give the number of load rows, or `tokens`, the number of single tokens; one of the two.",
                         key="rows")
    rows, tokens = (None if value is None else whole(name, value, -_ALL, _ALL)
                    for name, value in (("rows", rows), ("tokens", tokens)))
    sizes = whole("sources", sources), whole("tokens_per_row", tokens_per_row, -_ALL, _ALL), whole("seed", seed, 0, 2**64 - 1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(named({"preset": "model", "tokens-per-row": "tokens_per_row"}))
        if isinstance(model, RoutingModel):
            path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "model.yaml")
            model.save(path)
        else:
            path = text("model", model)
        return Trace(_native.generate_trace(path, rows, tokens, *sizes), "generated trace")


def presets() -> list[str]:
    """Names of the routing models that epsim carries."""
    return _native.routing_presets()
