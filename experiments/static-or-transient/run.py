#!/usr/bin/env python3
"""Which balancing wins where: epsim compare over models, nodes, skew and drift, as the tables of README.md.

    experiments/static-or-transient/run.py [path of epsim]
"""
import concurrent.futures
import csv
import math
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
# The simplest first: a later one wins where it is faster by more than the noise and FLOOR.
POLICIES = ["contiguous", "base", "eplb", "craft", "lplb", "waterfill", "ultraep"]
NAMES = {"contiguous": "off", "base": "placement", "eplb": "EPLB", "craft": "CRAFT", "lplb": "LPLB", "waterfill": "Waterfill",
         "ultraep": "transient"}
NODES = {"p4de": ["cluster.node=p4de.24xlarge", "cluster.nodes=8", "model.dtype=bf16", "dispatch.dispatch_dtype=bf16"],
         "H100": ["cluster.node=DGX-H100", "cluster.nodes=4"],
         "GB200": ["cluster.node=GB200-NVL72", "cluster.nodes=1", "cluster.gpus_per_node=64"]}
GPUS = {"p4de": 64, "H100": 32, "GB200": 64}
MODELS = ["deepseek-r1", "kimi-k2", "qwen3-235b-a22b"]
SKEWS, DRIFTS, SEEDS = [2.5, 6], [0, 0.3], 3
T95 = 4.303  # Student's t of 3 seeds, two-sided
# What per-step policies' exchanges are priced too short by, in % of the rate (README.md): no gain.
FLOOR = 0.5


def settings(model, node, skew, drift):
    gpus = GPUS[node]
    loads = ["loads={kind: uniform}", "plan_loads={kind: uniform}"] if skew == 1 else [
        f"loads={{kind: skew, range: [{skew}, {skew}], drift: {drift}, window: 1}}",
        f"plan_loads={{kind: skew, range: [{skew}, {skew}], drift: {drift}}}"]
    return NODES[node] + loads + [f"model.architecture={model}", f"serving.chunked_prefill_size={8192 * gpus}",
                                  f"requests.concurrency={2 * gpus}", f"requests.count={4 * gpus}",
                                  f"policies.eplb.num_redundant_experts={gpus}"]


def rates(epsim, model, node, skew, drift):
    """Requests/s of each seed, by policy."""
    policies = [p for p in POLICIES if p != "waterfill" or "qwen" not in model]  # it has no shared expert
    with tempfile.TemporaryDirectory() as folder:
        command = [epsim, "compare", str(HERE / "prefill.yaml"), "-q", "--policies", ",".join(policies), "--seeds", str(SEEDS),
                   "-o", folder + "/out"]
        for setting in settings(model, node, skew, drift):
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        out = {}
        with open(folder + "/out/comparison.csv", newline="") as table:
            for row in csv.DictReader(table):
                out.setdefault(row["policy"], []).append(float(row["requests_per_s"]))
        return out


def gain(of, over):
    """Mean of the seeds' ratios less 1 and half of its 95 % interval, in %."""
    ratios = [100 * (a / b - 1) for a, b in zip(of, over)]
    mean = sum(ratios) / len(ratios)
    spread = math.sqrt(sum((r - mean) ** 2 for r in ratios) / (len(ratios) - 1))
    return mean, T95 * spread / math.sqrt(len(ratios))


def winner(by_policy):
    best = "contiguous"
    for policy in POLICIES[1:]:
        if policy in by_policy:
            mean, noise = gain(by_policy[policy], by_policy[best])
            best = policy if mean > noise + FLOOR else best
    return best


def main():
    epsim = sys.argv[1] if len(sys.argv) > 1 else "epsim"
    cells = [(m, n, s, d) for m in MODELS for n in NODES for s in [1] + SKEWS for d in (DRIFTS if s > 1 else [0])]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = dict(zip(cells, pool.map(lambda c: rates(epsim, *c), cells)))
    print("| model | nodes | hottest / mean |" + "".join(f" drift {d} |" for d in DRIFTS))
    print("|---|---|---|" + "---|" * len(DRIFTS))
    for model in MODELS:
        for node in NODES:
            for skew in SKEWS:
                line = f"| {model} | {node} | {skew} |"
                for drift in DRIFTS:
                    by_policy = found[model, node, skew, drift]
                    best = winner(by_policy)
                    mean, noise = gain(by_policy[best], by_policy["contiguous"])
                    line += f" {NAMES[best]} {mean:+.1f} +- {noise:.1f} |"
                print(line)
    print("\n| gain over off, % | nodes | loads |" + "".join(f" {NAMES[p]} |" for p in POLICIES[1:]))
    print("|---|---|---|" + "---|" * (len(POLICIES) - 1))
    wrong = 0
    for model, node, skew, drift in cells:
        if skew == 1 or skew == 6:
            by_policy = found[model, node, skew, drift]
            loads = "uniform" if skew == 1 else f"{skew}, drift {drift}"
            line = f"| {model} | {node} | {loads} |"
            for policy in POLICIES[1:]:
                mean, noise = gain(by_policy[policy], by_policy["contiguous"]) if policy in by_policy else (0, 0)
                line += f" {mean:+.1f} |" if policy in by_policy else " |"
                wrong += skew == 1 and mean > noise + FLOOR
            print(line)
    print(f"\nuniform loads: {wrong} gains beyond noise and {FLOOR} %")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
