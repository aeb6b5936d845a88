#!/usr/bin/env python3
"""Changes one operator at a time in the price model, the schedulers and the planners: do the tests notice?

  mutants.py [--count 200] [--seed 1] [--only PATH,...] [--work FOLDER] [--cmake OPTION ...]

HEAD is copied to --work if that folder is not there, built, and its tests must pass. Each mutant changes one operator of
one file, drawn by the seed. The tests of the file's folder run first: those named like it, then the quick ones, then the
others; then those that read scenarios and serve requests, and the golden runs. A mutant is killed where a test fails,
crashes or takes longer than 50 s and thirty times its time. Prints a line per mutant and the score; survivors are to be
looked at. Exit code 1 where the unchanged code does not build or fails.
"""
import argparse, json, os, random, re, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Sources and the tests that are run for them.
ROOMS = {"models/step": "models_tests", "models/network": "models_tests", "models/compute": "models_tests",
         "sim/step": "step_tests", "sim/scheduler": "scheduler_tests", "policies/placement": "policies_tests",
         "policies/per_step": "policies_tests", "policies/replica_choice": "policies_tests",
         "policies/rebalance": "policies_tests"}
FURTHER = {"sim/scheduler": ["scenario_tests", "cluster_tests"], "sim/step": ["cluster_tests"]}
# clang-format sets spaces around binary operators and none within template arguments.
SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * "), (" && ", " || "), (" || ", " && "),
         (" += ", " -= "), (" -= ", " += "), ("std::min", "std::max"), ("std::max", "std::min")]
SITE = re.compile("|".join(re.escape(old) for old, _ in SWAPS))
# Comments and texts, preprocessor lines, template heads, messages and checks of broken rules are no behaviour.
NO_CODE = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
NO_LINE = re.compile(r"\s*(#|template|EPSIM_CHECK|static_assert|throw)|.*fmt::format")


def sites(text):
    """(position, old, new) of each operator that may be changed."""
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        if not NO_LINE.match(line):
            code = NO_CODE.sub(lambda m: " " * len(m.group()), line)
            found += [(start + m.start(), m.group(), dict(SWAPS)[m.group()]) for m in SITE.finditer(code)]
        start += len(line)
    return found


def command(args, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


class Build:
    def __init__(self, work, options):
        self.work, self.folder = work, os.path.join(work, "build", "release")
        if not os.path.exists(work):
            os.makedirs(work)
            archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
            subprocess.run(["tar", "-x", "-C", work], input=archive.stdout, check=True)
        if not os.path.exists(self.folder):
            done = command(["cmake", "--preset", "release", "-DEPSIM_BENCHMARKS=OFF", *options], cwd=work)
            if done.returncode != 0:
                sys.exit(done.stdout)

    def make(self, targets):
        return command(["ninja", "-C", self.folder, "-j2", *targets])

    def tests(self, target):
        """{name: command} of ctest's entries that run the target's binary."""
        listed = command(["ctest", "--test-dir", self.folder, "--show-only=json-v1"])
        return {test["name"]: test["command"] for test in json.loads(listed.stdout)["tests"]
                if os.path.basename(test.get("command", [""])[0]) == target}

    def run(self, test, limit=None):
        """Whether it passes or is skipped, and seconds."""
        start = time.monotonic()
        try:
            done = command([*test, "--abort-after=1"], cwd=self.work, timeout=limit)
            return done.returncode in (0, 77), time.monotonic() - start
        except subprocess.TimeoutExpired:
            return False, time.monotonic() - start


def draw(work, only, count, seed):
    """(file, position, old, new): each folder as likely, then each of its operators."""
    pool = {room: [] for room in ROOMS}
    for room in ROOMS:
        for name in sorted(os.listdir(os.path.join(work, room))):
            path = f"{room}/{name}"
            if name.endswith(".cpp") and path.startswith(only):
                with open(os.path.join(work, path)) as f:
                    pool[room] += [(path, *site) for site in sites(f.read())]
    pool = {room: found for room, found in pool.items() if found}
    if not pool:
        sys.exit(f"--only: no operator there; folders: {', '.join(ROOMS)}.")
    rng, out = random.Random(seed), []
    while len(out) < min(count, sum(map(len, pool.values()))):
        one = rng.choice(pool[rng.choice(sorted(pool))])
        if one not in out:
            out.append(one)
    return out


def judge(build, mutant, targets, tests, seconds):
    """What became of a mutant: the test that killed it, "not compiled" or "survived"."""
    path, at, old, new = mutant
    stem = os.path.splitext(os.path.basename(path))[0]
    full = os.path.join(build.work, path)
    with open(full) as f:
        text = f.read()
    try:
        with open(full, "w") as f:
            f.write(text[:at] + new + text[at + len(old):])
        for target in targets:
            if build.make([target]).returncode != 0:
                return "not compiled"
            for name in sorted(tests[target], key=lambda name: (stem not in name, seconds[name])):
                limit = 5 + 3 * seconds[name]
                # Once more with patience: a busy machine is no verdict.
                if not any(build.run(tests[target][name], patience * limit)[0] for patience in (1, 10)):
                    return name
        return "survived"
    finally:
        with open(full, "w") as f:
            f.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="beginnings of paths, separated by commas")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "mutants"))
    parser.add_argument("--cmake", nargs="*", default=[], metavar="OPTION", help="of cmake's first call")
    options = parser.parse_args()
    build = Build(os.path.abspath(options.work), options.cmake)
    mutants = draw(build.work, tuple(options.only.split(",")), options.count, options.seed)
    targets = {room: [own, *FURTHER.get(room, []), "golden_tests"] for room, own in ROOMS.items()}
    wanted = sorted({t for path, *_ in mutants for t in targets[os.path.dirname(path)]})
    done = build.make(wanted)
    if done.returncode != 0:
        sys.exit(done.stdout)
    tests, seconds = {target: build.tests(target) for target in wanted}, {}
    for name, test in ((name, test) for target in wanted for name, test in tests[target].items()):
        passed, seconds[name] = build.run(test)
        if not passed:
            sys.exit(f"{name} fails on the unchanged code.")
    counts = {"killed": 0, "survived": 0, "not compiled": 0}
    for path, at, old, new in mutants:
        with open(os.path.join(build.work, path)) as f:
            text = f.read()
        end = judge(build, (path, at, old, new), targets[os.path.dirname(path)], tests, seconds)
        counts[end if end in counts else "killed"] += 1
        line, first = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
        print(f"{path}:{line}:{at - first + 1} {old.strip()} -> {new.strip()}: {end}", flush=True)
    judged = counts["killed"] + counts["survived"]
    print(f"{judged} mutants that compile, {counts['killed']} killed ({counts['killed'] / max(judged, 1):.0%}), "
          f"{counts['survived']} survived; {counts['not compiled']} did not compile")


if __name__ == "__main__":
    main()
