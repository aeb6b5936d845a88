"""Scenarios as values: dict-like, with dotted access, checked whenever something is set."""

from __future__ import annotations

import json
import numbers
import os
import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Iterator, Optional

from . import _native
from .arguments import refused
from .errors import InputError

_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)$")  # 007 is a text
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")


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
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Section):
        value = value.to_dict()
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy, tables of pandas, paths, sections inside lists."""
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "tolist") and not isinstance(value, numbers.Number):
        return value.tolist()
    raise TypeError(f"a value is a text, a number, a list, an array or a dict, not {type(value).__name__}")


def _pairs(overrides: Any) -> list[tuple[str, Any]]:
    """Keys and values of {"requests.rate": "8/s"}, or of a list of "requests.rate=8/s"."""
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    out = []
    for one in [] if overrides is None else [overrides] if isinstance(overrides, str) else overrides:
        key, equals, value = str(one).partition("=")
        if not equals:
            raise refused("overrides", "a text such as 'requests.rate=8/s'", one)
        out.append((key, value))
    return out


def _texts(pairs: list[tuple[str, Any]]) -> list[str]:
    return [f"{key}={_text(value)}" for key, value in pairs]


def assignments(overrides: Any) -> list[str]:
    """Overrides as the program's --set takes them."""
    return _texts(_pairs(overrides))


def _at(tree: Any, key: str) -> Any:
    """The part of a document below the key; KeyError."""
    for part in key.split(".") if key else []:
        if not isinstance(tree, dict) or part not in tree:
            raise KeyError(key)
        tree = tree[part]
    return tree


def _absolute(value: Any, resolved: Any) -> Any:
    """A value with the paths in it as the scenario resolved them: what is set stays after os.chdir()."""
    if isinstance(value, Mapping) and isinstance(resolved, dict):
        return {key: _absolute(item, resolved.get(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and isinstance(resolved, list) and len(value) == len(resolved):
        return [_absolute(*item) for item in zip(value, resolved)]
    is_path = isinstance(value, (str, os.PathLike)) and os.path.abspath(value) == resolved
    return resolved if is_path else value


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
        return _at(self._scenario._tree(), self._full(key))

    def __getitem__(self, key: str) -> Any:
        node = self._found(key)
        return Section(self._scenario, self._full(key)) if isinstance(node, dict) else _value(node)

    def __setitem__(self, key: str, value: Any) -> None:
        self._scenario._set(self._full(key), value)

    def __delitem__(self, key: str) -> None:
        raise TypeError("keys of a scenario cannot be deleted; set one to None for its default")

    def _node(self) -> dict:
        return _at(self._scenario._tree(), self._path)

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

    def __delattr__(self, name: str) -> None:
        del self[name]

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

    __slots__ = ("_document", "_own", "_cached")

    def __init__(self, document: "_native.Document", own: Optional[tuple[Any, Any]] = None):
        if not isinstance(document, _native.Document):
            raise TypeError("epsim.load(file) makes a scenario of a file; epsim.Scenario is its type")
        super().__init__(self, "")
        object.__setattr__(self, "_document", document)
        object.__setattr__(self, "_own", own)  # the function of with_loads(), and its plan; here Python's collector sees it
        object.__setattr__(self, "_cached", (None, None))

    def _given(self) -> "_native.Document":
        """As a study takes it."""
        return self._document.with_loads(*self._own) if self._own else self._document

    def _own_sections(self) -> tuple[bool, bool]:
        """Whether `loads` and `plan_loads` are Python's."""
        return self._own is not None, self._own is not None and self._own[1] is not None

    def _tree(self) -> dict:
        inputs = self._document.inputs()
        if self._cached[0] is not inputs:  # a file has changed
            object.__setattr__(self, "_cached", (inputs, json.loads(inputs.json(*self._own_sections()))))
        return self._cached[1]

    def _changed(self, pairs: list[tuple[str, Any]]) -> "Scenario":
        """With these values, not checked yet. Loads that are set stand in for a function's."""
        own = self._own
        for key, _ in pairs:
            for section, value in zip(("loads", "plan_loads"), own or ()):
                if value is not None and key.startswith(section + "."):
                    raise InputError(f"`{key}`: the loads come from with_loads(); to replace them, set `{section}` as a "
                                     "whole.", key=key)
            if key == "loads":
                own = None
            elif key == "plan_loads" and own:
                own = (own[0], None)
        return Scenario(self._document.with_(_texts(pairs)), own)

    def _checked(self, pairs: list[tuple[str, Any]]) -> "Scenario":
        """With these values, read; a path among them is from the working folder of now."""
        out = self._changed(pairs)
        out._given().inputs()
        tree = out._tree()
        absolute = [(key, _absolute(value, _at(tree, key)) if key in out else value) for key, value in pairs]
        return out if _texts(absolute) == _texts(pairs) else self._changed(absolute)

    def _set(self, key: str, value: Any) -> None:
        changed = self._checked([(key, value)])
        for part in Scenario.__slots__:
            object.__setattr__(self, part, getattr(changed, part))

    def with_(self, overrides: Any = None, **sections: Any) -> "Scenario":
        """A copy with other values: scenario.with_({"requests.rate": "8/s"}), scenario.with_(seed=2)."""
        return self._checked(_pairs(overrides) + _pairs(sections))

    def __copy__(self) -> "Scenario":
        return Scenario(self._document, self._own)  # neither changes

    def __deepcopy__(self, memo: dict) -> "Scenario":
        return self.__copy__()

    def __reduce__(self) -> Any:
        if self._own:
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
        if not callable(function):
            raise refused("function", "a function (step, tokens) -> loads; recorded counts go into a file that `loads` "
                          "names", function)
        out = Scenario(self._document, (function, None if plan is None else _native.loads_array(plan, "plan").copy()))
        out._given().inputs()
        return out

    def resolved(self) -> str:
        """The document with every default filled in, as YAML; a comment marks what is a default, with its source."""
        return self._document.inputs().resolved(*self._own_sections())

    def warnings(self) -> list[str]:
        """Settings that the engine would refuse or change."""
        return self._document.inputs().warnings()

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
    return Scenario(_native.Document(_file(path), []))._checked(_pairs(overrides))


def _file(path: Any) -> str:
    if isinstance(path, Mapping):
        raise TypeError("a scenario is read from a file; load(file, {...}) overrides its values")
    return os.fspath(path)
