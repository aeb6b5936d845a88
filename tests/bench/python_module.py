"""What the Python module costs: a run against the program's, a call of a policy in Python. CPU time, least of the rounds.

PYTHONPATH=build/release/sim/python python3 tests/bench/python_module.py build/release/sim/app/epsim [SCENARIO [ROUNDS]]
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

import epsim
import numpy as np


def cpu(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def least(rounds, who, work):
    spent = []
    for _ in range(rounds):
        before = cpu(who)
        work()
        spent.append(cpu(who) - before)
    return min(spent)


def overhead(program, scenario, requests, rounds):
    """Runs of the program and of the module in turn, each with the files that `epsim run` writes."""
    own, module = [], []
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "run", scenario, "--set", f"requests.count={requests}", "-q", "--overwrite", "-o",
                 f"{folder}/program"]
        for _ in range(rounds):
            own.append(least(1, resource.RUSAGE_CHILDREN, lambda: subprocess.run(words, check=True, capture_output=True)))
            module.append(least(1, resource.RUSAGE_SELF, lambda: epsim.run(scenario, {"requests.count": requests}).save(
                f"{folder}/module", overwrite=True)))
    print(f"a run of {requests} requests: program {min(own):.3f} s, module {min(module):.3f} s, "
          f"{100 * (min(module) / min(own) - 1):+.1f} %")


def placement_call(rounds):
    loads = np.random.default_rng(1).lognormal(7, 1, (58, 256))
    slots = np.tile(np.arange(256), (58, 1))
    constant = epsim.policy(lambda loads, shape: slots, name="constant")
    own, ours = [], []
    for _ in range(10 * rounds):  # in turn, as the call is a small part of a plan
        for policy, spent in (("contiguous", own), (constant, ours)):
            spent.append(least(1, resource.RUSAGE_SELF, lambda: epsim.plan(policy, loads, gpus=64)))
    own, ours = min(own), min(ours)
    print(f"a placement policy's call, 58 x 256 experts on 64 GPUs: {1e3 * (ours - own):.2f} ms above a built-in one's")


def step_call(scenario, requests, rounds):
    """Everything but the function's own time, against a run without a policy per step."""
    spent = [0.0, 0]

    @epsim.step_policy
    def stay_home(requests, predicted, home):
        began = time.thread_time()
        tokens = np.zeros_like(requests)
        tokens[home, np.arange(len(home))] = requests.sum(axis=0)
        spent[0] += time.thread_time() - began
        spent[1] += 1
        return tokens

    built_in = least(rounds, resource.RUSAGE_SELF, lambda: epsim.compare(
        scenario, ["least_loaded_ep"], overrides={"requests.count": requests,
                                                  "policies.least_loaded_ep.min_imbalance": 1000}))
    ours = least(rounds, resource.RUSAGE_SELF,
                 lambda: epsim.compare(scenario, [stay_home], overrides={"requests.count": requests}))
    calls, own = spent[1] / rounds, spent[0] / rounds
    print(f"a per-step policy's call (a layer of a step): {1e6 * (ours - built_in) / calls:.1f} us more than a built-in "
          f"policy that moves nothing, {1e6 * own / calls:.1f} us of it in the function")


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    scenario = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "../data/small.yaml")
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    overhead(sys.argv[1], scenario, 4000, rounds)
    placement_call(rounds)
    step_call(os.path.join(here, "../data/small.yaml"), 40, rounds)
