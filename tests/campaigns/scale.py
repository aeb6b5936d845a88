#!/usr/bin/env python3
"""How time and memory grow with the size of a scenario, one axis at a time.

  scale.py --epsim build/release/sim/app/epsim [--only AXIS,...]

Prints a Markdown table: processor seconds and peak memory of the smallest and the largest run of each axis, and the exponent
of the time, fitted to log(time) over log(size) once the time of `epsim validate` is taken away. Exit code 1 where a run fails.
"""
import argparse, json, math, os, resource, subprocess, sys, tempfile

HF = {"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 8,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "num_experts": 256,
      "num_experts_per_tok": 8, "moe_intermediate_size": 256, "intermediate_size": 6144, "decoder_sparse_step": 1,
      "mlp_only_layers": [], "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
ZIPF = {"kind": "zipf", "exponent": 0.5}
SCENARIO = {"name": "scale", "seed": 1, "cluster": {"node": "DGX-H200", "nodes": 4}, "model": {"architecture": "./config.json"},
            "parallelism": {"attention_tp": 8}, "memory": {"static_fraction": 0.8}, "dispatch": {"transport": "nccl_p2p"},
            "serving": {"engine": "sglang_0_4_10"}, "network": {"model": "two_tier"},
            "requests": {"kind": "poisson", "rate": "100/s", "count": 50, "input_tokens": 1000, "output_tokens": 20},
            "loads": ZIPF, "plan_loads": ZIPF, "policy": "base", "policies": {"base": {"kind": "base"}}}
SHORT = {"requests.rate": "2000/s", "requests.input_tokens": 16, "requests.output_tokens": 2, "cluster.nodes": 1}
# Axis, sizes, the keys that a size sets (`hf.` for the model's config.json), others held.
AXES = [
    ("two_tier: GPUs of an instance", [320, 1280, 2560, 5120, 10240], {"cluster.nodes": 1 / 8}, {"hf.num_experts": 10240}),
    ("fair_share: GPUs of an instance", [320, 1280, 2560, 5120, 10240], {"cluster.nodes": 1 / 8},
     {"hf.num_experts": 10240, "network.model": "fair_share"}),
    ("max_min: GPUs of an instance", [32, 64, 128], {"cluster.nodes": 1 / 8}, {"network.model": "max_min",
     "requests.count": 4, "requests.output_tokens": 3}),
    ("experts of a layer", [256, 1024, 4096], {"hf.num_experts": 1}, {"requests.count": 200}),
    ("layers", [8, 64, 250, 1000], {"hf.num_hidden_layers": 1}, {}),
    ("requests", [10**5, 10**6, 10**7], {"requests.count": 1}, SHORT),
    ("instances", [8, 64, 512, 1280], {"deployment.instances": 1}, {"cluster.nodes": 1, "requests.count": 2000}),
]


def put(scenario, hf, key, value):
    if key.startswith("hf."):
        hf[key[3:]] = value
        return
    part = scenario
    *path, last = key.split(".")
    for name in path:
        part = part.setdefault(name, {})
    part[last] = value


def measure(args, folder):
    """Processor seconds and peak MiB of one command."""
    child = subprocess.Popen(args, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(args)}\n{errors}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def run(epsim, settings):
    """Seconds above those of reading the scenario, and peak MiB."""
    scenario, hf = json.loads(json.dumps(SCENARIO)), dict(HF)
    for key, value in settings.items():
        put(scenario, hf, key, value)
    with tempfile.TemporaryDirectory(prefix="epsim-scale-") as folder:
        for name, content in (("config.json", hf), ("s.yaml", scenario)):
            with open(os.path.join(folder, name), "w") as f:
                json.dump(content, f)
        base, _ = measure([epsim, "validate", "s.yaml", "--policies", "base"], folder)
        seconds, mib = measure([epsim, "run", "s.yaml", "-q", "--threads", "1", "-o", "out"], folder)
    return max(seconds - base, 0.001), mib


def slope(sizes, times):
    x, y = [math.log(s) for s in sizes], [math.log(t) for t in times]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsim", required=True)
    parser.add_argument("--only", help="beginnings of names of axes, separated by commas")
    options = parser.parse_args()
    epsim, only = os.path.abspath(options.epsim), tuple((options.only or "").split(","))
    print("| axis | from | s | MiB | to | s | MiB | time grows as |\n|---|---|---|---|---|---|---|---|")
    for name, sizes, scaled, held in AXES:
        if not name.startswith(only):
            continue
        rows = [run(epsim, {**held, **{key: int(size * factor) for key, factor in scaled.items()}}) for size in sizes]
        exponent = slope(sizes, [seconds for seconds, _ in rows])
        print(f"| {name} | {sizes[0]:,} | {rows[0][0]:.2f} | {rows[0][1]:.0f} | {sizes[-1]:,} | {rows[-1][0]:.2f} | "
              f"{rows[-1][1]:.0f} | size^{exponent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
