#!/usr/bin/env python3
"""The fingerprints of all shipped scenarios, over threads, locales, folders, orders of policies and builds of epsim.

  determinism.py build/release/sim/app/epsim [build/clang/sim/app/epsim ...] [--requests 20] [--only quickstart]

The first program is the reference; each further one (another compiler, another level of optimisation, -mavx2) must give
the same fingerprints for the same scenarios. A fingerprint covers every request, step and byte of a run (summary.json).
"""
import argparse, glob, json, os, subprocess, sys, tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POLICIES = "contiguous,eplb"


def fingerprints(epsim, scenario, requests, folder, more=(), environment=None, policies=POLICIES):
    """By policy; None where this scenario does not run with so few requests, or needs data that is not here."""
    out = os.path.join(folder, "out")
    done = subprocess.run([epsim, "compare", scenario, "--policies", policies, "-q", "--overwrite", "-o", out, "--set",
                           f"requests.count={requests}", *more], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        return None
    found = {}
    for policy in policies.split(","):
        with open(os.path.join(out, policy, "summary.json")) as f:
            found[policy] = json.load(f)["fingerprint"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("epsim", nargs="+")
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    programs = [os.path.abspath(p) for p in options.epsim]
    scenarios = sorted(glob.glob(os.path.join(REPOSITORY, "experiments/**/*.yaml"), recursive=True))
    held, differ, skipped = 0, 0, 0
    reverse = ",".join(reversed(POLICIES.split(",")))
    with tempfile.TemporaryDirectory(prefix="epsim-determinism-") as folder:
        for scenario in scenarios:
            name = os.path.relpath(scenario, REPOSITORY)
            if options.only not in name:
                continue
            reference = fingerprints(programs[0], scenario, options.requests, folder, ["--threads", "1"])
            if reference is None:
                skipped += 1
                continue
            ways = {"2 threads": (programs[0], ["--threads", "2"], {}, POLICIES),
                    "8 threads": (programs[0], ["--threads", "8"], {}, POLICIES),
                    "de_DE.UTF-8, policies in another order": (programs[0], [], {"LC_ALL": "de_DE.UTF-8"}, reverse)}
            for program in programs[1:]:
                ways[program] = (program, [], {}, POLICIES)
            for way, (program, more, environment, policies) in ways.items():
                found = fingerprints(program, scenario, options.requests, folder, more, environment, policies)
                if found == reference:
                    held += 1
                else:
                    differ += 1
                    print(f"{name}: {way}: {found} is not {reference}", flush=True)
    print(f"{held} comparisons held, {differ} differ; {skipped} files are no scenarios or cannot be cut to "
          f"{options.requests} requests")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
