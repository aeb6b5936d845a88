#!/usr/bin/env python3
"""Twelve commands timed in turn with two builds of epsim: has one of them become slower?

  speed.py --base PROGRAM_OR_REVISION --epsim build/release/sim/app/epsim [--rounds 5] [--only NAME,...]

A revision is built under build/speed/ first; the default is the last tag. Each round runs both programs on every case, the
second first in every other round, and compares processor time (user + system), which a busy machine moves less than the
clock. A case is flagged where the new program takes over 10 % more in the median of the rounds and more in each of them,
which chance does once in 2^rounds. Exit code 1 where a case is flagged.
"""
import argparse, os, resource, shlex, statistics, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
THRESHOLD = 1.10
QUICKSTART = "run experiments/quickstart/deepseek-r1-p4de.yaml --set policy=base "
GALLERY = "run experiments/gallery/"
PINNED = ".yaml --set serving.engine=sglang_0_4_10 --set policy=base "  # `sglang` is another version in older programs
# Name, what it times, the command. Each takes about a second, most of it in what it is for.
CASES = [
    ("start", "the catalogue and a scenario read", "validate experiments/quickstart/deepseek-r1-p4de.yaml"),
    ("serving", "scheduler and event queue", QUICKSTART + "--set requests.count=100000 --set requests.rate=60/s --set "
     "requests.input_tokens=256 --set requests.output_tokens=32 --set 'loads={kind: uniform}'"),
    ("step", "loads drawn and priced in each step", QUICKSTART + "--set requests.count=8000"),
    ("decode", "steps of decodes of 8 DP ranks", GALLERY + "qwen3-235b-h200" + PINNED + "--set requests.count=200"),
    ("copies", "the same with copies of experts", QUICKSTART + "--set policy=eplb --set requests.count=8000"),
    ("libra", "a decision in each step", "run experiments/libra/qwen3-235b-h200.yaml --set policy=libra --set requests.count=60"),
    ("max_min", "flows that share links", QUICKSTART + "--set cluster.nodes=4 --set requests.count=4 --set "
     "requests.output_tokens=8 --set network.model=max_min"),
    ("fair_share", "shares of ports and NICs", QUICKSTART + "--set requests.count=4000 --set network.model=fair_share"),
    ("pools", "prefill and decode apart", GALLERY + "prefill-decode-deepseek-r1-h200" + PINNED + "--set requests.count=800"),
    ("balance", "four plans of one window", "balance experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb,craft,libra"),
    ("many_nodes", "256 GPUs", QUICKSTART + "--set cluster.nodes=32 --set requests.count=2000"),
    ("trace", "expert loads drawn and written", "trace generate deepseek-r1-e --rows 100"),
]


def seconds(epsim, words):
    """Processor seconds of one command on one thread, run from the repository's root."""
    with tempfile.TemporaryDirectory(prefix="epsim-speed-") as folder:
        args = [epsim, *shlex.split(words)]
        if args[1] == "run":
            args += ["-q", "--threads", "1", "-o", os.path.join(folder, "out")]
        if args[1] == "trace":
            args += ["-o", os.path.join(folder, "trace.h5")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(args, cwd=ROOT, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(args)}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def program(base):
    """The program of a revision, built if it is not there."""
    if os.access(base, os.X_OK) and os.path.isfile(base):
        return os.path.abspath(base)
    commit = subprocess.run(["git", "rev-parse", "--verify", base + "^{commit}"], cwd=ROOT, capture_output=True, text=True)
    if commit.returncode != 0:
        sys.exit(f"--base {base}: neither a program nor a revision.")
    folder = os.path.join(ROOT, "build", "speed", commit.stdout.strip()[:12])
    built = os.path.join(folder, "build", "sim", "app", "epsim")
    if not os.path.exists(built):
        os.makedirs(folder, exist_ok=True)
        archive = subprocess.run(["git", "archive", commit.stdout.strip()], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        subprocess.run(["cmake", "-S", folder, "-B", os.path.join(folder, "build"), "-G", "Ninja", "-DEPSIM_TESTS=OFF",
                        "-DEPSIM_BENCHMARKS=OFF", "-DCMAKE_UNITY_BUILD=ON"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", os.path.join(folder, "build"), "--target", "epsim"], check=True)
    return built


def last_tag():
    done = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("this repository has no tag; give --base a program or a revision.")
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsim", required=True)
    parser.add_argument("--base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="names of cases, separated by commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [case[0] for case in CASES]
    if unknown := set(names) - {case[0] for case in CASES}:
        sys.exit(f"--only: no case {', '.join(sorted(unknown))}; known: {', '.join(case[0] for case in CASES)}.")
    base, new = program(options.base or last_tag()), os.path.abspath(options.epsim)
    flagged = []
    print(f"{'case':<11} {'base s':>7} {'new s':>7} {'ratio':>6}  slower in")
    for name, _, words in CASES:
        if name not in names:
            continue
        pairs = []
        for r in range(options.rounds):
            times = [seconds(p, words) for p in ((base, new) if r % 2 == 0 else (new, base))]
            pairs.append(tuple(times if r % 2 == 0 else times[::-1]))
        ratio = statistics.median(b / a for a, b in pairs)
        slower = sum(b > a for a, b in pairs)
        bad = ratio > THRESHOLD and slower == len(pairs)
        flagged += [name] if bad else []
        print(f"{name:<11} {statistics.median(a for a, _ in pairs):7.2f} {statistics.median(b for _, b in pairs):7.2f} "
              f"{ratio:6.3f}  {slower} of {len(pairs)}{'  SLOWER' if bad else ''}", flush=True)
    print(f"{len(names)} cases, {len(flagged)} slower{': ' + ', '.join(flagged) if flagged else ''}")
    sys.exit(1 if flagged else 0)


if __name__ == "__main__":
    main()
