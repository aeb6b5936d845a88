#!/usr/bin/env python3
"""Kills verbs at random points, runs them again, and compares every byte with an uninterrupted run.

  kills.py --epsim build/release/sim/app/epsim --rounds 20 [--verb sweep] [--seed 1]

Each round starts the verb, sends SIGKILL, SIGTERM or SIGINT after a random part of the time that the uninterrupted run
took, and runs it again (after the polite signals with --overwrite, which goes on from what is finished). A difference, a
file or folder left beside the output, or a failure of the second run is a failure of the round.
"""
import argparse, os, random, shutil, signal, subprocess, sys, tempfile, time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SMALL = os.path.join(REPOSITORY, "tests/data/small.yaml")
QUIET = ["-q", "--threads", "2"]
VERBS = {
    "run": ["run", SMALL, "--set", "requests.count=4000"],
    "compare": ["compare", SMALL, "--policies", "base,eplb", "--seeds", "5", "--set", "requests.count=400"],
    "sweep": ["sweep", SMALL, "--vary", "requests.rate=10/s,20/s,40/s", "--vary", "cluster.nodes=1,2", "--policies",
              "base,eplb"],
    "goodput": ["goodput", SMALL, "--policies", "base,eplb", "--slo", "ttft.p99<200ms", "--tolerance", "0.1"],
    "reproduce": ["reproduce", os.path.join(REPOSITORY, "experiments/craft/claims.yaml"), "--quick", "--only", "C17", "--set",
                  "plan_loads.steps=10", "--set", "requests.output_tokens=8"],
    "capacity": ["capacity", "--model", "olmoe-1b-7b", "--rate", "20/s", "--input-tokens", "700", "--output-tokens", "50",
                 "--ttft", "p99=2s", "--tpot", "p99=50ms", "--quick"],
}


def contents(folder):
    out = {}
    for root, folders, files in os.walk(folder):
        for name in folders:
            out[os.path.relpath(os.path.join(root, name), folder)] = None
        for name in files:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                out[os.path.relpath(path, folder)] = f.read()
    return out


def differences(a, b):
    return sorted(k for k in a.keys() | b.keys() if a.get(k, 0) != b.get(k, 0))


def campaign(verb, epsim, rounds, rng, folder):
    arguments = [epsim, *VERBS[verb], *QUIET]

    def run(*more):
        return subprocess.run([*arguments, "-o", "out", *more], cwd=folder, capture_output=True, text=True)
    start = time.monotonic()
    done = run()
    length = time.monotonic() - start
    if done.returncode not in (0, 3):
        sys.exit(f"{verb}: the uninterrupted run failed: {done.stderr}")
    whole = contents(folder)
    failed, cut = 0, 0
    for i in range(rounds):
        for name in os.listdir(folder):
            shutil.rmtree(os.path.join(folder, name))
        sent = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        wait = rng.random() * length
        child = subprocess.Popen([*arguments, "-o", "out"], cwd=folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            child.wait(wait)
        except subprocess.TimeoutExpired:
            child.send_signal(sent)
            cut += 1
        child.wait()
        there = os.path.exists(os.path.join(folder, "out"))
        again = run(*(["--overwrite"] if there and verb in ("run", "compare", "reproduce") else []))
        bad = differences(whole, contents(folder)) if again.returncode == done.returncode else [again.stderr.strip()]
        if bad:
            failed += 1
            print(f"{verb}: round {i}: {sent.name} after {wait:.3f} s of {length:.3f} s: {bad[:5]}", flush=True)
    print(f"{verb}: {rounds} rounds, {cut} of them cut short, {failed} differ ({length:.2f} s uninterrupted)", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsim", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--verb", choices=VERBS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for verb in options.verb or VERBS:
        with tempfile.TemporaryDirectory(prefix="epsim-kills-") as folder:
            failed += campaign(verb, os.path.abspath(options.epsim), options.rounds, random.Random(options.seed), folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
