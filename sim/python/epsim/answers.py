"""What all results share: the metric table, text, JSON, tables, charts and reports."""

from __future__ import annotations

import html
import json
import os
import shutil
import weakref
from typing import Any, Iterator

from . import _native

_METRICS = _native.metric_table()
_UNITS = {row["name"]: row["unit"] for row in _METRICS}


def metrics() -> list[dict]:
    """The metric table: name, unit, text (its definition), better ("lower", "higher" or ""), section, type."""
    return [dict(row) for row in _METRICS]


def units() -> dict[str, str]:
    """The unit of every metric."""
    return dict(_UNITS)


class Figures(dict):
    """A JSON object as a dict whose keys are attributes too: found["eplb"].slo_requests_per_s.mean."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no '{name}'; there are {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self))


def _read(text: str) -> Any:
    return json.loads(text, object_hook=Figures)


class Report:
    """A report as one HTML page: shows in a notebook's cell, save() writes it."""

    def __init__(self, page: str):
        self.html = page

    def save(self, path: Any) -> None:
        """Writes the page to `path`."""
        with open(os.fspath(path), "w", encoding="utf-8") as out:
            out.write(self.html)

    def __repr__(self) -> str:
        return f"<epsim.Report of {len(self.html)} characters of HTML>"

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html, quote=True)}" style="width:100%;height:720px;border:0">'
                "</iframe>")


class _Native:
    """A value of the compiled part: it never changes, so that copies are itself, and it is not pickled."""

    def __init__(self, native: Any):
        self._native = native

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"epsim.{type(self).__name__} cannot be pickled; pickle its to_dict() or to_pandas(), or save() it")


def leave_no_folder(native: Any, folder: str) -> None:
    """The temporary folder of a value of the compiled part goes at the end of the program too; "": it has none."""
    if folder:
        weakref.finalize(native, shutil.rmtree, folder, ignore_errors=True)


class _Answer(_Native):
    """What all results share: text, JSON, a report. This one has no folder of files: save() writes its JSON."""

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        first = next((line.strip() for line in str(self).splitlines() if line.strip()), "")
        return f"<epsim.{type(self).__name__}: {first[:100]}>"

    def to_dict(self) -> dict:
        """What the program prints with --json, or its main JSON file, as a dict; keys are attributes too."""
        return _read(self._native.json())

    def save(self, path: Any, overwrite: bool = False) -> None:
        """Writes what the program prints with --json, byte for byte."""
        with open(os.fspath(path), "w" if overwrite else "x", encoding="utf-8") as out:
            out.write(self._native.json())

    def report(self) -> Report:
        """The report on this result, for a cell or a file."""
        return Report(f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{type(self).__name__}</title>'
                      f"</head><body>{self._repr_html_()}</body></html>")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>{self._chart()}"

    def _chart(self) -> str:
        return ""


class _Result(_Answer):
    """A result with a folder of files."""

    def save(self, folder: Any, overwrite: bool = False) -> None:
        """Writes the folder that the program writes for the same scenario, byte for byte."""
        self._native.save(os.fspath(folder), overwrite)

    def report(self) -> Report:
        """The report of `epsim report` on this result, for a cell or a file."""
        return Report(self._native.report())


_scenario = property(lambda result: result._native.scenario, doc="Name of the scenario.")


def _pandas():
    try:
        import pandas
    except ImportError as missing:
        raise ImportError("to_pandas() needs pandas") from missing
    return pandas


def _frame(rows: Any, **options: Any) -> Any:
    """A DataFrame; where a figure has no value its column is float64 with NaN, not objects."""
    out = _pandas().DataFrame(rows, **options)
    for name in out.columns[out.dtypes == object]:
        if not any(isinstance(value, (str, bool, list, dict)) for value in out[name]):
            out[name] = out[name].astype(float)
    return out


def _bars(rows: list[tuple[str, float]], unit: str) -> str:
    """A small chart: one bar a row."""
    most = max((value for _, value in rows), default=0) or 1
    left = max([150] + [7 * len(label) for label, _ in rows])
    lines = []
    for i, (label, value) in enumerate(rows):
        y, width = 18 * i, 260 * value / most
        lines.append(f'<text x="0" y="{y + 12}">{html.escape(label)}</text>'
                     f'<rect x="{left}" y="{y + 2}" width="{width:.1f}" height="12" fill="#4878a8"/>'
                     f'<text x="{left + 6 + width:.1f}" y="{y + 12}">{value:.4g} {html.escape(unit)}</text>')
    return (f'<svg width="{left + 340 + 7 * len(unit)}" height="{18 * len(rows) + 4}" font-size="11" '
            f'font-family="sans-serif">{"".join(lines)}</svg>')


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        text = "-" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
        return f"<td>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    return f"<table><tr>{head}</tr>{''.join('<tr>' + ''.join(map(cell, row)) + '</tr>' for row in rows)}</table>"


class _ByPolicy:
    """Of several policies: result["eplb"], and a loop over it gives their labels."""

    labels: list[str]

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def _ipython_key_completions_(self) -> list[str]:
        return self.labels


def _row_of(result: Any, label: str) -> Figures:
    rows = {row["policy"]: row for row in result.to_dict()["policies"]}
    if label not in rows:
        raise KeyError(f"'{label}' was not compared; there are {', '.join(rows)}")
    return rows[label]


def _table_of(result: Any, name: str) -> dict[str, Any]:
    tables = result.tables
    if name not in tables:
        raise KeyError(f"'{name}' is none of the tables {', '.join(tables)}")
    return tables[name]
