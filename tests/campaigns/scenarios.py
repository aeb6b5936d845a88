#!/usr/bin/env python3
"""Random valid scenarios over the whole key table; every run is held to what must be true of any run.

  scenarios.py --epsim build/release/sim/app/epsim --runs 200 [--seed 1]

Each scenario has a seed of its own, printed with its failure; `--seed N --runs 1` draws that one again. A scenario that
fails is minimised: keys are taken away as long as it fails in the same way, and what is left is written to
scenario-SEED.json (JSON is YAML). A scenario that epsim refuses with exit code 2 and a place is counted and left.
"""
import argparse, collections, copy, csv, json, os, random, re, shutil, subprocess, sys, tempfile

from laws import Failure, Refused, check_figures, check_no_slower, close, require, same

TIMEOUT_S = 60
SMALL_MODELS = ["OLMoE-1B-7B"] * 8 + ["DeepSeek-V2-Lite"] * 3 + ["Qwen3-30B-A3B"] * 3
MODELS = SMALL_MODELS + ["DeepSeek-R1", "DeepSeek-V2", "DeepSeek-V3.2", "GLM-4.5", "GLM-5", "gpt-oss-120b", "gpt-oss-20b",
    "Kimi-K2", "Kimi-K2.5", "Llama-4-Maverick", "Llama-4-Scout", "MiniMax-M2", "Mixtral-8x7B", "Qwen2-57B-A14B",
    "Qwen3-235B-A22B", "Qwen3-Coder-480B-A35B", "Qwen3-Next-80B-A3B", "Qwen3.5-397B-A17B"]
DENSE = ["Llama-3.1-8B", "Llama-2-70B", "Qwen3-14B"]
GENERATED = ["poisson", "constant", "gamma", "onoff", "diurnal", "closed_loop", "sessions"]
RECORDED = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../experiments/gallery/azure-like.csv"))
LOADS = ["uniform", "zipf", "skew", "model", "imbalance"]
# Keys that the generator sets itself, that need a file, or that make a run long.
OWN_WAY = re.compile(r"(^|\.)(kind|path|plugin|windows|for|empirical|extends|policies|policy|lengths|seed|hourly_rates"
                     r"|missing_links|max_over_mean|range|hold_steps|prefill|decode|home|replica_choice|rebalance"
                     r"|tokens|steps|count|duration|replication_factor|affinity_tokens|engine|parallelism|memory"
                     r"|dispatch|serving|execution|preset|copies_take_kv|low|high|high_share|ranges)$")


class Keys:
    """The key table of `epsim list keys --json`."""

    def __init__(self, epsim):
        out = subprocess.run([epsim, "list", "keys", "--json"], capture_output=True, text=True, check=True).stdout
        self.rows = json.loads(out)["keys"]

    def of(self, section, variant=None):
        """Leaf keys right below `section` that this variant of it has."""
        for row in self.rows:
            name = row["key"]
            if not name.startswith(section + ".") or "." in name[len(section) + 1:]:
                continue
            if "for" in row and variant not in row["for"].split(", "):
                continue
            yield name[len(section) + 1:], row


def number(rng, text, whole):
    low = float(m.group(1)) if (m := re.search(r">=? (-?[\d.]+)", text)) else 0.0
    high = float(m.group(1)) if (m := re.search(r"<=? ([\d.]+)", text)) else None
    if m := re.search(r"([\d.]+) to ([\d.]+)", text):
        low, high = float(m.group(1)), float(m.group(2))
    strict = re.search(r"> 0", text) is not None
    if whole:
        top = int(min(high or 1e9, rng.choice([2, 8, 64, 1024])))
        return rng.randint(int(low) + (1 if strict else 0), max(top, int(low) + 1))
    if high is not None and rng.random() < 0.1:
        return high if "< 1" not in text else 0.5
    drawn = low + rng.random() * ((high if high is not None else 4.0) - low)
    return round(drawn, 3) if round(drawn, 3) > low or not strict else low + 0.5


def draw(rng, row):
    """A value of the key's type, or None where the table does not say enough."""
    text = row["value"]
    if text == "true or false":
        return rng.random() < 0.5
    if text.startswith("whole number"):
        return number(rng, text, True)
    if text.startswith("number"):
        return number(rng, text, False)
    if text.startswith("time"):
        return rng.choice(["0s", "10us", "1ms", "50ms"]) if ">= 0" in text else rng.choice(["100us", "5ms", "200ms"])
    if text.startswith("bytes"):
        return rng.choice(["0B", "64MiB", "1GiB"])
    if text.startswith("byte rate"):
        return rng.choice(["1GB/s", "20GB/s", "400GB/s"])
    if text.startswith("request rate"):
        return rng.choice(["0.5/s", "8/s", "60/s", "500/s"])
    if text.startswith("list of whole numbers"):
        return sorted(rng.sample([1, 2, 4, 8, 16, 64, 256], rng.randint(1, 4)))
    if re.fullmatch(r"[a-z0-9_]+(, [a-z0-9_]+)+", text):
        return rng.choice(text.split(", "))
    return None


def some(rng, keys, section, share, variant=None, required=True):
    """A mapping with some of the section's keys: those it requires, and of the others each with probability `share`."""
    out = {}
    for name, row in keys.of(section, variant):
        needed = required and row["default"] == "required" and name not in ("kind", "path")
        if needed or (rng.random() < share and not OWN_WAY.search(row["key"])):
            value = draw(rng, row)
            if value is not None:
                out[name] = value
    return out


def lengths(rng, top):
    kind = rng.choice(["fixed", "lognormal", "uniform", "random"])
    return {"fixed": {"kind": kind, "tokens": rng.randint(1, top)},
            "lognormal": {"kind": kind, "mean": rng.randint(1, top), "sigma": round(rng.random() * 2, 2), "max": top},
            "uniform": {"kind": kind, "max": top},
            "random": {"kind": kind, "tokens": rng.randint(1, top), "range_ratio": round(rng.random(), 2)}}[kind]


def recorded(rng):
    """A slice of a recorded trace, at its own times, stretched, or at another rate."""
    out = {"kind": "azure_csv", "path": RECORDED, "equal_timestamps": "keep", "drop_zero_tokens": True,
           "slice_length": rng.choice(["5s", "20s"]), "max_output_tokens": rng.choice([5, 40])}
    return {**out, **rng.choice([{}, {"time_scale": rng.choice([0.1, 3])}, {"rate": rng.choice(["2/s", "80/s"])},
                                 {"rate": "8/s", "rate_by": rng.choice(["stretch", "resample"])}])}


def requests(rng, keys):
    if rng.random() < 0.1:
        return recorded(rng)
    kind = rng.choice(GENERATED)
    out = {"kind": kind, **some(rng, keys, "requests", 0.15, kind), "count": rng.choice([1, 5, 20, 60])}
    out.pop("input_tokens", None), out.pop("output_tokens", None)
    if rng.random() < 0.5:
        out["input_tokens"], out["output_tokens"] = rng.choice([1, 30, 700, 3000]), rng.choice([1, 2, 12, 60])
    else:
        out["lengths"] = {"input": lengths(rng, 2000), "output": lengths(rng, 40)}
    if kind == "diurnal":
        out.update(rate=rng.choice(["5/s", "50/s"]), amplitude=round(rng.random(), 2))
    if kind == "sessions":
        out.update(turns=rng.choice([1, 3]), think_time="200ms", max_context=6000)
    if kind == "closed_loop":
        out.update(concurrency=rng.choice([1, 7, 40]), warmup=rng.choice([0, 0, 3]))
    return out


def loads(rng, keys):
    kind = rng.choice(LOADS)
    out = {"kind": kind, **some(rng, keys, "loads", 0.2, kind)}
    if kind == "skew":
        out.update(low=1.5, high=rng.choice([2.0, 4.0, 8.0]), high_share=round(rng.random(), 2))
    if kind == "model":
        out = {"kind": kind, "preset": "olmoe", "steps": 16, "tokens": 64,
               **{k: v for k, v in out.items() if k in ("variation", "drift", "window", "sigma_scale", "ranks")}}
    if kind == "zipf":
        out["exponent"] = round(rng.random() * 1.5, 2)
    return out


def policy(rng, keys, names, gpus):
    kind = rng.choice(names)
    out = {"kind": kind, **some(rng, keys, "policies.*", 0.25, kind)}
    for key in ("num_redundant_experts", "n_extra"):
        if key in out:
            out[key] = gpus * rng.choice([0, 1, 2])
    if rng.random() < 0.2:
        rule = rng.choice(["every", "threshold", "gain"])
        out["rebalance"] = {"rule": rule, **some(rng, keys, "policies.*.rebalance", 0.3, rule, False), "steps": 20,
                            "window": 10}
        out["rebalance"].pop("balancedness", None)
    if rng.random() < 0.2:
        choice = rng.choice(["even", "sglang_static", "sglang_dynamic", "vllm_hash", "weighted_round_robin"])
        out["replica_choice"] = {"kind": choice}
    return out


def divisor(rng, n):
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def faults(rng, nodes, gpus):
    out = []
    for _ in range(rng.randint(1, 2)):
        fault = {"at": rng.choice(["0s", "100ms", "1s"])}
        fault.update(rng.choice([{"gpu": rng.randrange(gpus)}, {"node": rng.randrange(nodes)}]))
        fault.update(rng.choice([{"lost": True}, {"speed": 0.5}, {"link_speed": 0.25}]))
        if rng.random() < 0.5:
            fault["until"] = rng.choice(["1500ms", "20s"])
        out.append(fault)
    return out


def without_experts(rng, s, gpus):
    """The same of a dense model: one DP rank, no loads, one policy."""
    s["model"] = {"architecture": rng.choice(DENSE)}
    s["parallelism"] = {"attention_tp": gpus}
    s["policies"] = {"one": {"kind": "base"}}
    return {k: v for k, v in s.items() if k not in ("loads", "plan_loads", "dispatch", "execution")}


def scenario(rng, keys, catalogue):
    nodes, per_node = rng.choice([1, 1, 2, 2, 3, 4]), rng.choice([8, 8, 8, 4, 2, 1])
    gpus = nodes * per_node
    s = {"name": "random", "seed": rng.randrange(1000),
         "model": {"architecture": rng.choice(MODELS if rng.random() < 0.4 else SMALL_MODELS)},
         "cluster": {"node": rng.choice(catalogue["nodes"]), "nodes": nodes, "gpus_per_node": per_node},
         "parallelism": {"attention_tp": divisor(rng, per_node)},
         "serving": {"engine": rng.choice(catalogue["engines"])},
         "requests": requests(rng, keys), "loads": loads(rng, keys)}
    s["plan_loads"] = copy.deepcopy(s["loads"]) if rng.random() < 0.5 else loads(rng, keys)
    s["serving"].update(some(rng, keys, "serving", 0.12, s["serving"]["engine"]))
    for section, share in (("parallelism", 0.1), ("model", 0.2), ("memory", 0.1), ("dispatch", 0.15),
                           ("execution", 0.2), ("network", 0.4)):
        s.setdefault(section, {}).update(some(rng, keys, section, share, None, False))
    s["model"]["architecture"] = s["model"].get("architecture", "OLMoE-1B-7B")
    if "ep_size" in s["parallelism"]:
        s["parallelism"]["ep_size"] = divisor(rng, gpus)
    s["memory"].pop("num_gpu_blocks", None)
    if rng.random() < 0.15:
        s["memory"]["num_gpu_blocks"] = rng.choice([300, 4000, 20000])
    if rng.random() < 0.15:
        s["serving"]["speculative"] = {"draft_tokens": rng.randint(1, 3), "acceptance": round(rng.random(), 2)}
    if rng.random() < 0.25 and nodes > 1:
        s["cluster"]["fabric"] = some(rng, keys, "cluster.fabric", 0.3)
        s["cluster"]["fabric"]["kind"] = rng.choice(["single_switch", "leaf_spine", "rail_optimised"])
    kind = policy(rng, keys, catalogue["policies"], gpus)
    s["policies"], s["policy"] = {"one": kind}, "one"
    if rng.random() < 0.15:
        s["deployment"] = {"instances": rng.randint(1, 3), "router": rng.choice(["round_robin", "least_tokens"])}
    elif rng.random() < 0.15:
        s["deployment"] = {"prefill": {"instances": rng.randint(1, 2)}, "decode": {"instances": rng.randint(1, 2)}}
    if rng.random() < 0.15:
        s["faults"] = faults(rng, nodes, gpus)
        if "deployment" in s:
            for fault in s["faults"]:
                fault["instance"] = 0
    s = {k: v for k, v in s.items() if v != {}}
    return without_experts(rng, s, gpus) if rng.random() < 0.05 else s


class Runner:
    def __init__(self, epsim):
        self.epsim, self.runs = epsim, 0
        self.folder = tempfile.mkdtemp(prefix="epsim-campaign-")

    def refusal(self, s):
        """What `epsim validate` says; "" where it accepts."""
        file = os.path.join(self.folder, "s.yaml")
        with open(file, "w") as f:
            json.dump(s, f)
        done = subprocess.run([self.epsim, "validate", file, "--policies", "one"], capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        return done.stderr if done.returncode else ""

    def run(self, s, *more):
        """The result of one run: summary, requests and links."""
        self.runs += 1
        file, out = os.path.join(self.folder, "s.yaml"), os.path.join(self.folder, "out")
        text = s if isinstance(s, str) else json.dumps(s)
        with open(file, "w") as f:
            f.write(text)
        shutil.rmtree(out, ignore_errors=True)
        try:
            done = subprocess.run([self.epsim, "run", file, "-q", "-o", out, *more], capture_output=True, text=True,
                                  timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Failure("time-out", f"{TIMEOUT_S} s") from None
        if done.returncode == 2:
            errors = [x for x in done.stderr.splitlines() if x.startswith("epsim: ")]
            if not errors or len(errors[0]) < 12:
                raise Failure("refused without a reason", done.stderr)
            raise Refused(re.sub(r"[\d.]+|'[^']*'", "N", errors[0].replace(self.folder, "")))
        if done.returncode != 0:
            # An error of the run without its figures, so that a minimised scenario fails in the same way.
            why = re.sub(r"[\d.]+", "N", done.stderr.strip().splitlines()[0] if done.stderr.strip() else "")
            raise Failure(f"exit code {done.returncode}: {why}", done.stderr[:300])
        with open(os.path.join(out, "summary.json")) as f:
            result = {"summary": json.load(f)}
        for table in ("requests", "links", "memory", "layers"):
            name = os.path.join(out, table + ".csv")
            if os.path.exists(name):
                with open(name) as f:
                    result[table] = list(csv.DictReader(f))
        with open(os.path.join(out, "resolved.yaml")) as f:
            result["resolved"] = f.read()
        return result


def host_bound(result):
    return result["summary"]["time_by_part"]["host_s"] > 0


def check(s, runner, rng):
    """Everything that is required of one scenario; one relation between two runs is drawn."""
    first = runner.run(s, "--threads", "1")
    check_figures(first)
    relation = rng.choice(["threads", "resolved", "links", "kernels", "closed_form", "balance", "none"])
    if relation == "threads":
        same(first, runner.run(s, "--threads", "8"), "eight threads give another result")
    elif relation == "resolved":
        same(first, runner.run(first["resolved"], "--threads", "1"), "resolved.yaml gives another result")
    # Where launches are what a step waits for, its tokens are seen a step late, and slower kernels may be seen earlier.
    elif relation in ("links", "kernels") and "faults" not in s and "deployment" not in s and not host_bound(first):
        key = "link_speed" if relation == "links" else "speed"
        slow = {**s, "faults": [{"at": "0s", "node": n, key: 0.5} for n in range(s["cluster"]["nodes"])]}
        check_no_slower(first, runner.run(slow), f"half the speed of {relation} is faster")
    elif relation == "closed_form" and "execution" not in s:
        event = runner.run({**s, "execution": {"mode": "event"}})
        a, b = first["summary"]["step"]["step_time_s"], event["summary"]["step"]["step_time_s"]
        require(close(a, b, 1e-6), "events and closed form differ", (a, b))
    # A policy with copies sends less, so that perfect balance of one copy is no bound for it.
    elif relation == "balance" and "faults" not in s and s["policies"]["one"]["kind"] in ("base", "contiguous", "random"):
        check_no_slower(runner.run({**s, "policies": {"one": {"kind": "perfect"}}}), first,
                        "perfect balance is slower")
    return relation


PLAIN = {"loads": {"kind": "uniform"}, "plan_loads": {"kind": "uniform"}, "one": {"kind": "eplb"},
         "requests": {"kind": "poisson", "rate": "20/s", "count": 20, "input_tokens": 300, "output_tokens": 8},
         "node": "DGX-H200", "architecture": "OLMoE-1B-7B"}


def drop(s, key):
    """Takes away the key that a refusal names, or puts something plain there; whether that changed anything."""
    path = [int(p) if p.isdigit() else p for p in re.sub(r"\[(\d+)\]", r".\1", key).split(".")]
    before, part = json.dumps(s), s
    if path == ["cluster", "nodes"]:
        s["cluster"]["nodes"] = {3: 4, 1: 2, 2: 8, 4: 8, 8: 16, 16: 32, 32: 32}[s["cluster"]["nodes"]]
        return before != json.dumps(s)
    for i, p in enumerate(path):
        last = i == len(path) - 1
        there = p in part if isinstance(part, dict) else isinstance(part, list) and isinstance(p, int) and p < len(part)
        if last and there and p not in PLAIN and p != "kind":
            del part[p]
        elif p in PLAIN and (last or p not in part or not isinstance(part[p], dict) or path[i + 1] not in part[p]
                             or path[i + 1] == "kind"):
            part[p] = copy.deepcopy(PLAIN[p])
            break
        elif not there:
            break
        else:
            part = part[p]
    return before != json.dumps(s)


def repaired(s, runner):
    """The scenario without the keys that its refusals name, so that most of what is drawn can run."""
    for _ in range(12):
        text = runner.refusal(s)
        named = re.findall(r"`([\w.\[\]]+)`: ", text)
        if not text or not any([drop(s, key) for key in dict.fromkeys(named)]):
            break
    return s


def problem_of(s, runner, seed):
    """Failure, Refused or None."""
    try:
        check(s, runner, random.Random(seed))
    except (Failure, Refused) as e:
        return e
    return None


def smaller(s):
    """Scenarios with one key less, the largest parts first."""
    def paths(x, at=()):
        if isinstance(x, dict):
            for key in x:
                yield at + (key,)
                yield from paths(x[key], at + (key,))
        elif isinstance(x, list):
            for i in range(len(x)):
                yield at + (i,)
                yield from paths(x[i], at + (i,))
    for path in sorted(paths(s), key=len):
        out = copy.deepcopy(s)
        part = out
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]
        yield out
    for path, value in ((("model", "architecture"), "OLMoE-1B-7B"), (("cluster", "node"), "p4de.24xlarge"),
                        (("cluster", "nodes"), 1), (("loads",), {"kind": "uniform"}),
                        (("plan_loads",), {"kind": "uniform"}), (("requests", "count"), 1),
                        (("requests", "count"), 5), (("policies", "one", "kind"), "base"),
                        (("serving", "engine"), "sglang_0_4_8")):
        out = copy.deepcopy(s)
        part = out
        for key in path[:-1]:
            part = part.get(key, {})
        if part.get(path[-1]) != value:
            part[path[-1]] = value
            yield out


def minimise(s, runner, seed, kind, most=200):
    tries, changed = 0, True
    while changed and tries < most:
        changed = False
        for candidate in smaller(s):
            tries += 1
            problem = problem_of(candidate, runner, seed)
            if isinstance(problem, Failure) and problem.kind == kind:
                s, changed = candidate, True
                break
            if tries >= most:
                break
    return s


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsim", required=True)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--no-minimise", action="store_true")
    options = parser.parse_args()
    epsim = os.path.abspath(options.epsim)
    keys, runner = Keys(epsim), Runner(epsim)

    def names(topic, catalogue):
        listed = json.loads(subprocess.run([epsim, "list", topic, "--json"], capture_output=True, text=True).stdout)
        return [x["name"] for c in catalogue for x in listed[c]]
    catalogue = {"nodes": names("hardware", ["nodes"]), "engines": names("engines", ["engines"]),
                 "policies": [p for p in names("policies", ["policies", "step_policies", "ceilings"]) if p != "plugin"]}
    counts, refusals, failed = collections.Counter(), collections.Counter(), 0
    try:
        for seed in range(options.seed, options.seed + options.runs):
            s = repaired(scenario(random.Random(seed), keys, catalogue), runner)
            problem = problem_of(s, runner, seed)
            counts["refused" if isinstance(problem, Refused) else "failed" if problem else "held"] += 1
            if isinstance(problem, Refused):
                refusals[str(problem)] += 1
            if isinstance(problem, Failure):
                failed += 1
                print(f"seed {seed}: {problem}", flush=True)
                if not options.no_minimise:
                    s = minimise(s, runner, seed, problem.kind)
                    with open(f"scenario-{seed}.json", "w") as f:
                        json.dump(s, f, indent=1)
                    print(f"  minimised in scenario-{seed}.json: {json.dumps(s)}", flush=True)
                if not options.keep_going:
                    break
    except KeyboardInterrupt:  # what is done counts
        pass
    shutil.rmtree(runner.folder, ignore_errors=True)
    print(f"{sum(counts.values())} scenarios from seed {options.seed}: {counts['held']} held, {counts['refused']} refused, "
          f"{failed} failed; {runner.runs} runs")
    for text, n in refusals.most_common(12):
        print(f"  refused {n}: {text[:160]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
