from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from os import PathLike
from typing import Any, Optional, Union, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import traces as traces

__version__: str

Overrides = Union[Mapping[str, Any], Sequence[str], None]
Progress = Union[bool, Callable[[int, int], object], None]
Path = Union[str, "PathLike[str]"]

class InputError(ValueError):
    file: Optional[str]
    line: Optional[int]
    key: Optional[str]
    problem: str
    allowed: list[str]
    errors: list["InputError"]
    def __init__(self, message: str, file: Optional[str] = ..., line: Optional[int] = ..., key: Optional[str] = ...,
                 problem: Optional[str] = ..., errors: Sequence["InputError"] = ...) -> None: ...

class RunFailed(RuntimeError): ...

class Section(MutableMapping[str, Any]):
    def __getitem__(self, key: str) -> Any: ...
    def __setitem__(self, key: str, value: Any) -> None: ...
    def __delitem__(self, key: str) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
    def to_dict(self) -> dict[str, Any]: ...

class Scenario(Section):
    def with_(self, overrides: Overrides = ..., **sections: Any) -> Scenario: ...
    def with_loads(self, function: Callable[[int, npt.NDArray[np.int64]], npt.ArrayLike],
                   plan: Optional[npt.ArrayLike] = ...) -> Scenario: ...
    def resolved(self) -> str: ...
    def warnings(self) -> list[str]: ...

class Shape:
    @property
    def gpus(self) -> int: ...
    @property
    def gpus_per_node(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def experts(self) -> int: ...

PlacementFunction = Callable[[npt.NDArray[np.float64], Shape], Any]

class Policy:
    name: str
    function: PlacementFunction
    def __init__(self, function: PlacementFunction, name: str) -> None: ...
    def __call__(self, *arguments: Any) -> Any: ...

StepFunction = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]], Any]

class StepPolicy(Policy):
    per_step: dict[str, Any]
    def __init__(self, function: StepFunction, name: str, per_step: dict[str, Any]) -> None: ...

@overload
def step_policy(function: StepFunction, *, name: Optional[str] = ..., extra_experts: int = ..., on_demand: bool = ...,
                accuracy: Optional[float] = ..., distortion: Optional[float] = ...,
                planning_time: Optional[str] = ..., copy_efficiency: Optional[float] = ...) -> StepPolicy: ...
@overload
def step_policy(function: None = ..., *, name: Optional[str] = ..., extra_experts: int = ..., on_demand: bool = ...,
                accuracy: Optional[float] = ..., distortion: Optional[float] = ...,
                planning_time: Optional[str] = ..., copy_efficiency: Optional[float] = ...) -> Callable[[StepFunction], StepPolicy]: ...
@overload
def policy(function: PlacementFunction, *, name: Optional[str] = ...) -> Policy: ...
@overload
def policy(function: None = ..., *, name: Optional[str] = ...) -> Callable[[PlacementFunction], Policy]: ...

class Report:
    html: str
    def __init__(self, page: str) -> None: ...
    def save(self, path: Path) -> None: ...

class Figures(dict[str, Any]):
    def __getattr__(self, name: str) -> Any: ...

class _Answer:
    def to_dict(self) -> Figures: ...
    def save(self, path: Path, overwrite: bool = ...) -> None: ...
    def report(self) -> Report: ...

class _Result(_Answer): ...

class _ByPolicy:
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, label: object) -> bool: ...

class Comparison(_ByPolicy, _Result):
    @property
    def scenario(self) -> str: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def seeds(self) -> list[int]: ...
    @property
    def conclusion(self) -> str: ...
    def __getitem__(self, label: str) -> Run: ...
    def to_pandas(self) -> pd.DataFrame: ...

class Goodput(_ByPolicy, _Result):
    @property
    def scenario(self) -> str: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def seeds(self) -> int: ...
    @property
    def tables(self) -> dict[str, dict[str, Any]]: ...
    def __getitem__(self, label: str) -> Figures: ...
    def to_pandas(self, table: Optional[str] = ...) -> pd.DataFrame: ...

class _FolderResult(_Result):
    @property
    def folder(self) -> str: ...
    @property
    def tables(self) -> dict[str, dict[str, Any]]: ...
    def to_pandas(self, table: Optional[str] = ...) -> pd.DataFrame: ...

class Sweep(_FolderResult): ...

class Capacity(_FolderResult):
    @property
    def feasible(self) -> bool: ...

class Reproduction(_FolderResult):
    @property
    def claims(self) -> list[Figures]: ...
    def to_pandas(self, table: Optional[str] = ...) -> pd.DataFrame: ...

class Plan(_Answer):
    @property
    def policy(self) -> str: ...
    @property
    def slots(self) -> list[npt.NDArray[np.int32]]: ...
    @property
    def first_slots(self) -> list[npt.NDArray[np.int32]]: ...
    @property
    def copies(self) -> npt.NDArray[np.int32]: ...
    @property
    def balancedness_before(self) -> npt.NDArray[np.float64]: ...
    @property
    def balancedness(self) -> npt.NDArray[np.float64]: ...
    def explain(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def save(self, path: Path, format: str = ..., overwrite: bool = ...) -> None: ...

class Balance(_ByPolicy, _Answer):
    @property
    def labels(self) -> list[str]: ...
    def __getitem__(self, label: str) -> Figures: ...
    def to_pandas(self) -> pd.DataFrame: ...

class Diagnosis(_Answer):
    @property
    def answer(self) -> str: ...
    def to_pandas(self) -> pd.DataFrame: ...

Policies = Union[str, Policy, Sequence[Union[str, Policy]]]

def load(path: Path, overrides: Overrides = ...) -> Scenario: ...
def run(scenario: Union[Scenario, Path], overrides: Overrides = ..., *, threads: int = ...,
        strict_calibration: bool = ..., progress: Progress = ...) -> Run: ...
def compare(scenario: Union[Scenario, Path], policies: Policies, *,
            seeds: int = ..., only_listed: bool = ..., overrides: Overrides = ..., threads: int = ...,
            strict_calibration: bool = ..., progress: Progress = ...) -> Comparison: ...
def goodput(scenario: Union[Scenario, Path], policies: Policies, *,
            slo: Optional[str] = ..., rates: Any = ..., tolerance: float = ..., seeds: int = ...,
            only_listed: bool = ..., folder: Optional[Path] = ..., overwrite: bool = ..., overrides: Overrides = ...,
            threads: int = ..., strict_calibration: bool = ..., progress: Progress = ...) -> Goodput: ...
def sweep(scenario: Union[Scenario, Path], vary: Mapping[str, Sequence[Any]], policies: Optional[Policies] = ..., *,
          measure: str = ..., slo: Optional[str] = ..., tolerance: Optional[float] = ..., only_listed: bool = ...,
          folder: Optional[Path] = ..., overwrite: bool = ..., retry_failed: bool = ..., overrides: Overrides = ...,
          threads: int = ..., progress: Progress = ...) -> Sweep: ...
def capacity(file: Optional[Path] = ..., *, model: Optional[str] = ..., rate: Any = ..., concurrency: Any = ...,
             input_tokens: Any = ..., output_tokens: Any = ..., ttft: Any = ..., tpot: Any = ..., e2e: Any = ...,
             slo: Any = ..., times: Any = ..., time_share: Any = ..., growth: Any = ..., spare: Any = ...,
             budget: Any = ..., power: Any = ..., price: Any = ..., terms: Any = ..., kwh: Any = ..., pue: Any = ...,
             nodes: Any = ..., sizes: Any = ..., attention_tp: Any = ..., ep_size: Any = ..., engines: Any = ...,
             dtypes: Any = ..., modes: Any = ..., policies: Any = ...,
             vary: Optional[Mapping[str, Sequence[Any]]] = ..., max_nodes: Any = ..., seeds: Any = ...,
             quick: bool = ..., overrides: Overrides = ..., folder: Optional[Path] = ..., overwrite: bool = ...,
             threads: int = ..., progress: Progress = ...) -> Capacity: ...
def reproduce(paper: Path, *, only: Optional[Sequence[str]] = ..., quick: bool = ..., sensitivity: bool = ...,
              seeds: Optional[int] = ..., overrides: Overrides = ..., folder: Optional[Path] = ...,
              overwrite: bool = ..., threads: int = ..., progress: Progress = ...) -> Reproduction: ...
def plan(policy: Union[str, Policy], loads: Optional[npt.ArrayLike] = ..., *, gpus: int, nodes: int = ...,
         model: Optional[Path] = ..., trace: Optional[Mapping[str, Any]] = ..., replicas: Optional[int] = ...,
         replication_factor: Optional[int] = ..., groups: Optional[int] = ...,
         options: Optional[Mapping[str, Any]] = ..., expert_bytes: Any = ..., previous: Optional[Path] = ...,
         keep: Optional[str] = ..., migration_limit: Optional[int] = ..., seed: int = ...) -> Plan: ...
def balance(scenario: Union[Scenario, Path], policies: Optional[Policies] = ..., *,
            overrides: Overrides = ...) -> Balance: ...
def diagnose(counts: Union[traces.Trace, Path], later: Union[traces.Trace, Path, None] = ..., *,
             scenario: Union[Scenario, Path, None] = ..., model: Optional[Path] = ..., node: str = ...,
             nodes: Optional[int] = ..., format: str = ..., seeds: int = ..., worth: float = ...,
             overrides: Overrides = ..., threads: int = ...) -> Diagnosis: ...
def catalogue() -> dict[str, dict[str, str]]: ...
def metrics() -> list[dict[str, str]]: ...
def units() -> dict[str, str]: ...

class Run(_Result):
    @property
    def scenario(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def carried_over(self) -> list[str]: ...
    @property
    def figures(self) -> dict[str, Any]: ...
    @property
    def requests(self) -> dict[str, npt.NDArray[Any]]: ...
    @property
    def series(self) -> dict[str, npt.NDArray[Any]]: ...
    @property
    def maps(self) -> dict[str, npt.NDArray[np.float64]]: ...
    @property
    def links(self) -> list[dict[str, Any]]: ...
    @property
    def memory(self) -> list[tuple[str, float]]: ...
    def to_pandas(self, what: str = ...) -> pd.DataFrame: ...
    # The table of metrics, by scripts/python_stub.py.
    overrides: str  # text
    plan: str  # text
    row_sharing: str  # text
    load_counts: str  # text
    fingerprint: str  # text
    interrupted: bool  # true, false
    overloaded: bool  # true, false
    gpus: Optional[int]
    closed_loop_clients: Optional[int]
    warmup_requests: Optional[int]  # requests
    offered_requests: Optional[int]  # requests
    completed_requests: Optional[int]  # requests
    failed_requests: Optional[int]  # requests
    retried_requests: Optional[int]  # requests
    running_requests: Optional[int]  # requests
    waiting_requests: Optional[int]  # requests
    turns_waited: Optional[int]  # requests
    completed_input_tokens: Optional[int]  # tokens
    completed_output_tokens: Optional[int]  # tokens
    duration_s: Optional[float]  # s
    offered_requests_per_s: Optional[float]  # 1/s
    requests_per_s: Optional[float]  # 1/s
    input_tokens_per_s: Optional[float]  # 1/s
    output_tokens_per_s: Optional[float]  # 1/s
    input_tokens_per_s_per_gpu: Optional[float]  # 1/s
    output_tokens_per_s_per_gpu: Optional[float]  # 1/s
    ttft_mean_ms: Optional[float]  # ms
    ttft_p50_ms: Optional[float]  # ms
    ttft_p90_ms: Optional[float]  # ms
    ttft_p99_ms: Optional[float]  # ms
    ttft_max_ms: Optional[float]  # ms
    ttft_samples: Optional[int]
    itl_mean_ms: Optional[float]  # ms
    itl_p50_ms: Optional[float]  # ms
    itl_p90_ms: Optional[float]  # ms
    itl_p99_ms: Optional[float]  # ms
    itl_max_ms: Optional[float]  # ms
    itl_samples: Optional[int]
    tpot_mean_ms: Optional[float]  # ms
    tpot_p50_ms: Optional[float]  # ms
    tpot_p90_ms: Optional[float]  # ms
    tpot_p99_ms: Optional[float]  # ms
    tpot_max_ms: Optional[float]  # ms
    tpot_samples: Optional[int]
    e2e_mean_ms: Optional[float]  # ms
    e2e_p50_ms: Optional[float]  # ms
    e2e_p90_ms: Optional[float]  # ms
    e2e_p99_ms: Optional[float]  # ms
    e2e_max_ms: Optional[float]  # ms
    e2e_samples: Optional[int]
    queue_mean_ms: Optional[float]  # ms
    queue_p50_ms: Optional[float]  # ms
    queue_p90_ms: Optional[float]  # ms
    queue_p99_ms: Optional[float]  # ms
    queue_max_ms: Optional[float]  # ms
    queue_samples: Optional[int]
    steps: Optional[int]
    graph_steps: Optional[int]
    step_mean_ms: Optional[float]  # ms
    step_time_s: Optional[float]  # s
    busy_share: Optional[float]  # share
    prefill_steps: Optional[int]
    prefill_step_mean_ms: Optional[float]  # ms
    prefill_step_time_share: Optional[float]  # share
    decode_steps: Optional[int]
    decode_step_mean_ms: Optional[float]  # ms
    decode_step_time_share: Optional[float]  # share
    mixed_steps: Optional[int]
    mixed_step_mean_ms: Optional[float]  # ms
    mixed_step_time_share: Optional[float]  # share
    attention_s: Optional[float]  # s
    attention_share: Optional[float]  # share
    gate_s: Optional[float]  # s
    gate_share: Optional[float]  # share
    dispatch_s: Optional[float]  # s
    dispatch_share: Optional[float]  # share
    experts_s: Optional[float]  # s
    experts_share: Optional[float]  # share
    combine_s: Optional[float]  # s
    combine_share: Optional[float]  # share
    dense_s: Optional[float]  # s
    dense_share: Optional[float]  # share
    planning_s: Optional[float]  # s
    planning_share: Optional[float]  # share
    prefetch_s: Optional[float]  # s
    prefetch_share: Optional[float]  # share
    migration_s: Optional[float]  # s
    migration_share: Optional[float]  # share
    drafter_s: Optional[float]  # s
    drafter_share: Optional[float]  # share
    host_s: Optional[float]  # s
    host_share: Optional[float]  # share
    other_s: Optional[float]  # s
    other_share: Optional[float]  # share
    measured_s: Optional[float]  # s
    measured_share: Optional[float]  # share
    interpolated_s: Optional[float]  # s
    interpolated_share: Optional[float]  # share
    extrapolated_s: Optional[float]  # s
    extrapolated_share: Optional[float]  # share
    spec_sheet_s: Optional[float]  # s
    spec_sheet_share: Optional[float]  # share
    declared_s: Optional[float]  # s
    declared_share: Optional[float]  # share
    balancedness_mean: Optional[float]
    balancedness_worst_layer_mean: Optional[float]
    balancedness_worst_layer: Optional[int]
    balancedness_lowest_step: Optional[float]
    gpu_load_deviation: Optional[float]
    balancedness_planned: Optional[float]
    gpu_idle_s: Optional[float]  # s
    straggler_s: Optional[float]  # s
    straggler_share: Optional[float]  # share
    kv_tokens_per_rank: Optional[int]  # tokens
    kv_pool_gib_per_gpu: Optional[float]  # GiB
    kv_bytes_per_token_per_gpu: Optional[float]  # bytes
    kv_lost_to_copies_share: Optional[float]  # share
    kv_copies_gib_per_gpu: Optional[float]  # GiB
    kv_peak_use_share: Optional[float]  # share
    kv_mean_use_share: Optional[float]  # share
    kv_full_time_share: Optional[float]  # share
    prefix_lookup_tokens: Optional[int]  # tokens
    prefix_hit_tokens: Optional[int]  # tokens
    prefix_hit_share: Optional[float]  # share
    retractions: Optional[int]
    recomputed_tokens: Optional[int]  # tokens
    transfers: Optional[int]
    transferred_tokens: Optional[int]  # tokens
    transfer_mean_ms: Optional[float]  # ms
    transfer_wait_mean_ms: Optional[float]  # ms
    transfer_memory_wait_mean_ms: Optional[float]  # ms
    rebalance_plans: Optional[int]
    rebalance_taken: Optional[int]
    rebalance_unchanged: Optional[int]
    rebalance_turned_down: Optional[int]
    rebalance_did_not_fit: Optional[int]
    rebalance_cut_short: Optional[int]
    rebalance_moved_copies: Optional[int]
    rebalance_moved_gib: Optional[float]  # GiB
    rebalance_planning_s: Optional[float]  # s
    rebalance_moving_s: Optional[float]  # s
    rebalance_slowed_s: Optional[float]  # s
    rebalance_lost_s: Optional[float]  # s
    rebalance_gained_s: Optional[float]  # s
    gpu_changes: Optional[int]
    remade_copies: Optional[int]
    remade_moved_gib: Optional[float]  # GiB
    remade_reloaded_gib: Optional[float]  # GiB
    remaking_s: Optional[float]  # s
    nic_sent_balance: Optional[float]
    nic_received_balance: Optional[float]
    gpu_sent_balance: Optional[float]
    gpu_received_balance: Optional[float]
    link_name: str  # text
    link_utilisation_share: Optional[float]  # share
    dispatch_bottleneck_link: str  # text
    dispatch_bottleneck_s: Optional[float]  # s
    dispatch_bottleneck_share: Optional[float]  # share
    combine_bottleneck_link: str  # text
    combine_bottleneck_s: Optional[float]  # s
    combine_bottleneck_share: Optional[float]  # share
    assignments_routed: Optional[float]
    assignments_dropped: Optional[float]
    assignments_rerouted: Optional[float]
    assignments_executed: Optional[float]
    sent_bytes: Optional[float]  # bytes
    sent_between_nodes_bytes: Optional[float]  # bytes
    sent_inside_nodes_bytes: Optional[float]  # bytes
    received_bytes: Optional[float]  # bytes
    little_mean_in_system_requests: Optional[float]  # requests
    little_arrivals_times_stay_requests: Optional[float]  # requests
