"""Placement policies that are Python functions."""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import _native

Shape = _native.Shape


class Policy:
    """A placement policy of your own; takes part in epsim.compare() and goodput() beside labels."""

    def __init__(self, function: Callable, name: str):
        self.function = function
        self.name = name
        self.__doc__ = function.__doc__

    def __call__(self, loads: Any, shape: Any) -> Any:
        return self.function(loads, shape)

    def __repr__(self) -> str:
        return f"<epsim.Policy {self.name}>"


def policy(function: Optional[Callable] = None, *, name: Optional[str] = None) -> Any:
    """Makes a placement policy of a function (loads, shape) -> slots.

    loads: float64 array [MoE layers, experts], routed assignments (tokens x top-k) of the window that plans are made
    from. shape: epsim.Shape with gpus, gpus_per_node, nodes, layers, experts.
    slots: the expert in each slot: an array [layers, slots], GPU by GPU, with as many slots on each; or
    slots[layer][gpu], a list of experts for each GPU. Every expert has a slot in every layer; more of one expert are
    copies, which share its load and take KV room.

    Equal loads must give equal slots. What the function raises comes out as epsim.InputError with its traceback.
    """
    if function is None:
        return lambda given: policy(given, name=name)
    return Policy(function, name or function.__name__)


def given(policies: Any) -> list[tuple[str, Any]]:
    """Labels and policies as pairs of a name and a function or None; names differ."""
    from .errors import InputError

    if isinstance(policies, (str, Policy)):
        policies = [policies]
    out = [(one.name, one.function) if isinstance(one, Policy) else (str(one), None) for one in policies]
    names = [name for name, _ in out]
    for name, function in out:
        if names.count(name) > 1 or (function is not None and name in _native.policy_kinds()):
            raise InputError(f"`policies`: the name '{name}' is taken; policies of one study have different names.",
                             key="policies")
    return out
