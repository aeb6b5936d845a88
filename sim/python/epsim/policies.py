"""Policies and load sources that are Python functions."""

from __future__ import annotations

from typing import Any, Callable, Optional

from . import _native
from .arguments import flag, whole
from .errors import InputError

Shape = _native.Shape


class Policy:
    """A placement policy of your own; compare(), goodput(), sweep(), plan() and balance() take it beside labels."""

    per_step: Optional[dict] = None

    def __init__(self, function: Callable, name: Optional[str]):
        if not callable(function):
            raise TypeError(f"a policy is a function, not {function!r}")
        self.function = function
        self.name = name or getattr(function, "__name__", "")
        if not self.name:
            raise TypeError(f"{function!r} has no name of its own; give one, as in name='mine'")
        self.__doc__ = function.__doc__
        self.__module__ = getattr(function, "__module__", None)
        self.__qualname__ = getattr(function, "__qualname__", self.name)

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled as functions are: by the name at the top of its module

    def __call__(self, *arguments: Any) -> Any:
        out = self.function(*arguments)
        return out.to_numpy() if hasattr(out, "to_numpy") else out  # a DataFrame's [0] is a column

    def __repr__(self) -> str:
        return f"<epsim.{type(self).__name__} {self.name}>"


class StepPolicy(Policy):
    """A policy of your own that acts in every MoE layer of every step; used like a Policy."""

    def __init__(self, function: Callable, name: Optional[str], per_step: dict):
        super().__init__(function, name)
        self.per_step = per_step


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
    return Policy(function, name)


def step_policy(function: Optional[Callable] = None, *, name: Optional[str] = None, extra_experts: int = 0,
                on_demand: bool = True, accuracy: Optional[float] = None, distortion: Optional[float] = None,
                planning_time: Optional[str] = None, copy_efficiency: Optional[float] = None) -> Any:
    """Makes a policy that acts in every layer of every step of a function (requests, predicted, home) -> tokens.

    requests: int64 array [GPUs, experts], assignments of the tokens that live on each GPU. predicted: the same as it
    was predicted when copies had to leave; zeros in the first layer, where nothing can be copied ahead. home: int32
    array [experts], the GPU of each.
    tokens: int64 array [GPUs, experts], what each GPU computes, summing over GPUs to the requests. Experts computed away
    from home are copied there; or return (tokens, held), held a bool array [experts, GPUs] of all copies.

    on_demand: copies leave once the routing is known, and the layer waits for them; False: ahead, by `predicted`, into a
    buffer for extra_experts experts on each GPU, which takes KV room. accuracy and distortion of the prediction,
    planning_time (host time a layer, "50us") and copy_efficiency: as keys of a policy in the scenario.
    It is called once for each layer of each step: tests/bench/python_module.py measures what a call costs.
    """
    run = {"accuracy": accuracy, "distortion": distortion, "planning_time": planning_time,
           "copy_efficiency": copy_efficiency}
    options = {"extra_experts": whole("extra_experts", extra_experts, 0), "on_demand": flag("on_demand", on_demand),
               **{key: value for key, value in run.items() if value is not None}}
    if on_demand and options["extra_experts"]:
        raise InputError("`extra_experts`: copies on demand have no buffer; set on_demand=False too.", key="extra_experts")
    if function is None:
        return lambda given: StepPolicy(given, name, options)
    return StepPolicy(function, name, options)


def given(policies: Any, needed: bool = True) -> list[tuple[str, Any, Any]]:
    """Labels and policies as (name, function or None, options of a per-step function or None); names differ.

    A text may name several, separated by commas, as the program takes them."""
    if isinstance(policies, str):
        policies = [one.strip() for one in policies.split(",") if one.strip()]
    elif callable(policies):
        policies = [policies]
    policies = [] if policies is None else list(policies)
    for one in policies:
        if callable(one) and not isinstance(one, Policy):
            raise InputError(f"`policies`: {one!r} is a function without its kind; decorate it with @epsim.policy or "
                             "@epsim.step_policy.", key="policies")
    out = [(one.name, one, one.per_step) if isinstance(one, Policy) else (str(one), None, None) for one in policies]
    if needed and not out:
        raise InputError("`policies`: empty; name at least one policy, such as 'base' or 'eplb'.", key="policies")
    names = [name for name, _, _ in out]
    for name, function, _ in out:
        if function is not None and ("/" in name or name.startswith(".")):
            raise InputError(f"`policies`: '{name}' cannot name files; leave out '/' and a leading '.'.", key="policies")
        if names.count(name) > 1 or (function is not None and name in _native.policy_kinds()):
            raise InputError(f"`policies`: the name '{name}' is taken; policies of one study have different names.",
                             key="policies")
    return out
