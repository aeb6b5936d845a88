"""Scenarios as values: dict-like, with dotted access, checked whenever something is set."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Iterator

from . import _native

_WHOLE = re.compile(r"[-+]?[0-9]+$")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


def _value(node: Any) -> Any:
    """A part of the document with its scalars as YAML reads them."""
    if isinstance(node, dict):
        return {key: _value(item) for key, item in node.items()}
    if isinstance(node, list):
        return [_value(item) for item in node]
    if not isinstance(node, str):
        return node
    if node in ("true", "false"):
        return node == "true"
    if _WHOLE.match(node):
        return int(node)
    return float(node) if _NUMBER.match(node) else node


def _text(value: Any) -> str:
    """A value as YAML. A text is taken as it stands in a file: "8/s", "60s", "[1, 2]"."""
    if isinstance(value, str):
        return value
    if isinstance(value, Section):
        value = value.to_dict()
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy, tables of pandas, sections inside lists."""
    if isinstance(value, Section):
        return value.to_dict()
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value is a text, a number, a list, an array or a dict, not {type(value).__name__}")


def assignments(overrides: Any) -> list[str]:
    """{"requests.rate": "8/s"}, or a list of "requests.rate=8/s", as the program's --set takes them."""
    if overrides is None:
        return []
    if isinstance(overrides, Mapping):
        return [f"{key}={_text(value)}" for key, value in overrides.items()]
    if isinstance(overrides, str):
        return [overrides]
    return [str(one) for one in overrides]


class Section(MutableMapping):
    """A part of a scenario: section["rate"], section.rate, section["a.b"] all read, and all may be assigned to.

    Values are those of the file with every default filled in; quantities are texts with their unit ("8/s", "60s").
    """

    __slots__ = ("_scenario", "_path")

    def __init__(self, scenario: "Scenario", path: str):
        object.__setattr__(self, "_scenario", scenario)
        object.__setattr__(self, "_path", path)

    def _full(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _found(self, key: str) -> Any:
        node = self._scenario._tree()
        for part in self._full(key).split("."):
            if not isinstance(node, dict) or part not in node:
                raise KeyError(self._full(key))
            node = node[part]
        return node

    def __getitem__(self, key: str) -> Any:
        node = self._found(key)
        return Section(self._scenario, self._full(key)) if isinstance(node, dict) else _value(node)

    def __setitem__(self, key: str, value: Any) -> None:
        self._scenario._set(self._full(key), value)

    def __delitem__(self, key: str) -> None:
        raise TypeError("keys of a scenario cannot be deleted; set one to None for its default")

    def _node(self) -> dict:
        node = self._scenario._tree()
        for part in self._path.split(".") if self._path else []:
            if not isinstance(node, dict) or part not in node:
                raise KeyError(self._path)
            node = node[part]
        return node

    def __iter__(self) -> Iterator[str]:
        return iter(self._node())

    def __len__(self) -> int:
        return len(self._node())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the scenario has no key '{self._full(name)}'; it has {', '.join(self)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def to_dict(self) -> dict:
        """A plain dict of this part."""
        return _value(self._node())

    def __reduce__(self) -> Any:
        return Section, (self._scenario, self._path)

    def __repr__(self) -> str:
        return f"{self._path}: {self.to_dict()}"


class Scenario(Section):
    """Everything that a run depends on; epsim.load() makes one from a file.

    scenario["requests.rate"], scenario.requests.rate = "8/s". A value that the simulator would refuse is refused when it
    is set (InputError), and the scenario stays as it was. docs/keys.md lists all keys with units and defaults.
    """

    __slots__ = ("_document", "_cached")

    def __init__(self, document: "_native.Document"):
        super().__init__(self, "")
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_cached", None)

    def _tree(self) -> dict:
        if self._cached is None:
            object.__setattr__(self, "_cached", json.loads(self._document.json()))
        return self._cached

    def _set(self, key: str, value: Any) -> None:
        self._document.set([f"{key}={_text(value)}"])
        object.__setattr__(self, "_cached", None)

    def with_(self, overrides: Any = None, **sections: Any) -> "Scenario":
        """A copy with other values: scenario.with_({"requests.rate": "8/s"}), scenario.with_(seed=2)."""
        out = self.__copy__()
        out._document.set(assignments(overrides) + assignments(sections))
        return out

    def __copy__(self) -> "Scenario":
        return Scenario(self._document.copy())  # nothing of it is shared

    def __deepcopy__(self, memo: dict) -> "Scenario":
        return self.__copy__()

    def __reduce__(self) -> Any:
        if self._document.has_own_loads():
            raise TypeError("a scenario with_loads() cannot be pickled: its loads are a function")
        return load, (self._document.file(), self._document.assignments())

    def with_loads(self, function: Any, plan: Any = None) -> "Scenario":
        """A copy whose runs take their expert loads from a function (step, tokens) -> loads.

        step: number of an instance's step, from 0. tokens: int64 array [DP ranks], what each brings. loads: array
        [MoE layers, experts], or [DP ranks, MoE layers, experts], of any scale: shares of the assignments; no expert has
        more than 1 / top-k of a layer. Equal arguments must give equal loads; several runs call it at once.
        plan: array [MoE layers, experts] that policies plan from; None: the file's `plan_loads`. Arrays of recorded
        loads need no function: save them as a trace and name it in `loads`.
        """
        out = self.__copy__()
        out._document.use_loads(function, plan)
        return out

    def resolved(self) -> str:
        """The document with every default filled in, as YAML; a comment marks what is a default, with its source."""
        return self._document.resolved()

    def warnings(self) -> list[str]:
        """Settings that the engine would refuse or change."""
        return self._document.warnings()

    def __repr__(self) -> str:
        return f"<epsim.Scenario {self['name']}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<details><summary>{escape(repr(self))}</summary><pre>{escape(self.resolved())}</pre></details>"


def load(path: Any, overrides: Any = None) -> Scenario:
    """Reads a scenario file.

    path: a YAML file. overrides: {"requests.rate": "8/s"}, or a list of "requests.rate=8/s"; a text stands as it would
    in the file, with its unit. Throws InputError, which names file, line and key.
    """
    return Scenario(_native.Document(_file(path), assignments(overrides), True))


def _file(path: Any) -> str:
    if isinstance(path, Mapping):
        raise TypeError("a scenario is read from a file; load(file, {...}) overrides its values")
    return os.fspath(path)
