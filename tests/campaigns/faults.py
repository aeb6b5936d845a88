#!/usr/bin/env python3
"""Makes single calls fail under epsim, and whole disks: no memory, I/O errors, full and read-only folders, small stacks.

  faults.py --epsim build/release/sim/app/epsim --points 200 [--seed 1]
  faults.py --epsim build/release/sim/app/epsim --job run --every-allocation

For each kind of call, the calls of a whole run are counted and up to `--points` of them are failed, one run each: all of
them where there are fewer. A run must end with 0 (and then every byte of its output as without the fault), or with 1 or 2,
a message on standard error, and no output folder. A signal, a silent end or half an output is a failure.
`--every-allocation` tries each malloc, calloc and realloc in one run, which forks there: the fork goes on without that memory.
"""
import argparse, errno, os, random, shutil, subprocess, sys, tempfile, types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from kills import SMALL, contents, differences  # noqa: E402

JOBS = {"run": ["run", SMALL, "-q", "--threads", "1", "-o", "out"],
        "compare": ["compare", SMALL, "--policies", "base,eplb", "--seeds", "2", "-q", "--threads", "1", "-o", "out"],
        "sweep": ["sweep", SMALL, "-q", "--threads", "1", "--vary", "seed=1,2", "-o", "out"]}
KINDS = [("malloc", errno.ENOMEM, False), ("write", errno.ENOSPC, True), ("write", errno.EIO, False),
         ("open", errno.EMFILE, False), ("open", errno.EROFS, True), ("rename", errno.EIO, False),
         ("rename", errno.EACCES, True)]


class Campaign:
    def __init__(self, epsim, shim, folder):
        self.epsim, self.shim, self.folder, self.failed, self.runs = epsim, shim, folder, 0, 0

    def run(self, job, folder, environment):
        self.runs += 1
        return subprocess.run([self.epsim, *JOBS[job]], cwd=folder, capture_output=True, text=True,
                              timeout=None if "EPSIM_FAULT_FORK" in environment else 120, env={**os.environ, **environment})

    def fresh(self):
        for name in os.listdir(self.folder):
            shutil.rmtree(os.path.join(self.folder, name))

    def judge(self, job, what, done, whole, folder):
        """What is finished of a sweep or comparison may stay, as may the folder that is replaced by the next run; the same
        command must then complete it."""
        left = contents(folder)
        problem = ""
        if done.returncode not in (0, 1, 2):
            problem = f"exit code {done.returncode}: {done.stderr[-300:]}"
        elif done.returncode == 0 and differences(whole, left):
            problem = f"exit code 0 with other bytes: {differences(whole, left)[:3]}"
        elif done.returncode != 0 and "epsim: " not in done.stderr:
            problem = "no message"
        # The output may be whole already when the summary is printed.
        elif done.returncode != 0 and left and differences(whole, left):
            kept = job == "sweep" or all(name.startswith((".out.runs", ".out.partial")) for name in left)
            again = self.run(job, folder, {}) if kept else None
            if not kept or again.returncode != 0 or differences(whole, contents(folder)):
                problem = f"left behind: {sorted(left)[:3]}" + (f"; again: {again.stderr[-200:]}" if kept else "")
        if problem:
            self.failed += 1
            print(f"{what}: {problem}", flush=True)

    def whole(self, job):
        self.fresh()
        done = self.run(job, self.folder, {})
        if done.returncode != 0:
            sys.exit(f"{job} fails without faults: {done.stderr}")
        return contents(self.folder)

    def every_allocation(self, job):
        """One run that forks at each allocation; what the shim keeps of a fork did not just end with a message."""
        whole = self.whole(job)
        forks, count_file = self.folder + ".forks", self.folder + ".count"
        shutil.rmtree(forks, ignore_errors=True)
        os.mkdir(forks)
        self.fresh()
        self.run(job, self.folder, {"LD_PRELOAD": self.shim, "EPSIM_FAULT": "malloc", "EPSIM_FAULT_FORK": forks,
                                    "EPSIM_FAULT_COUNT": count_file})
        if differences(whole, contents(self.folder)):
            sys.exit(f"{job}: the run that forked has other output")
        with open(count_file) as f:
            total = int(f.read())
        before = self.failed
        for status in sorted((name for name in os.listdir(forks) if name.endswith(".status")), key=lambda s: int(s.split(".")[0])):
            at = status.split(".")[0]
            with open(os.path.join(forks, status)) as code, open(os.path.join(forks, at + ".stderr")) as errors:
                done = types.SimpleNamespace(returncode=int(code.read()), stderr=errors.read())
            self.judge(job, f"{job}: allocation {at} of {total}", done, whole, os.path.join(forks, at))
        print(f"{job}: each of {total} allocations, {self.failed - before} failures", flush=True)

    def calls(self, job, rng, points):
        whole = self.whole(job)
        for kind, code, lasts in KINDS:
            count_file = self.folder + ".count"
            self.fresh()
            shim = {"LD_PRELOAD": self.shim, "EPSIM_FAULT": kind, "EPSIM_FAULT_ERRNO": str(code)}
            self.run(job, self.folder, {**shim, "EPSIM_FAULT_COUNT": count_file})
            with open(count_file) as f:
                total = int(f.read())
            chosen = range(1, total + 1) if total <= points else sorted(rng.sample(range(1, total + 1), points))
            before = self.failed
            for at in chosen:
                self.fresh()
                done = self.run(job, self.folder, {**shim, "EPSIM_FAULT_AT": str(at),
                                                   **({"EPSIM_FAULT_LASTS": "1"} if lasts else {})})
                self.judge(job, f"{job}: {kind} {at} of {total}, {errno.errorcode[code]}", done, whole,
                           self.folder)
            print(f"{job}: {kind}, {errno.errorcode[code]}{' from there on' if lasts else ''}: {len(chosen)} of {total} calls, "
                  f"{self.failed - before} failures", flush=True)

    def full_disk(self, job, kibibytes):
        """A tmpfs of this size; needs the right to mount."""
        self.fresh()
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "none", disk],
                          capture_output=True).returncode != 0:
            print("tmpfs: no right to mount; not run")
            return False
        try:
            done = self.run(job, disk, {})
            if done.returncode not in (0, 1, 2) or (done.returncode and "epsim: " not in done.stderr):
                self.failed += 1
                print(f"{job} on a disk of {kibibytes} KiB: exit code {done.returncode}: {done.stderr[-200:]}")
        finally:
            subprocess.run(["umount", disk], check=True)
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsim", required=True)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--job", choices=JOBS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every-allocation", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="epsim-faults-") as top:
        shim, folder = os.path.join(top, "shim.so"), os.path.join(top, "work")
        os.mkdir(folder)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", shim, os.path.join(HERE, "fault_shim.c"), "-ldl"], check=True)
        campaign = Campaign(os.path.abspath(options.epsim), shim, folder)
        for job in options.job or JOBS:
            if options.every_allocation:
                campaign.every_allocation(job)
            else:
                campaign.calls(job, rng, options.points)
        if options.every_allocation:
            return 1 if campaign.failed else 0
        disks = 0
        for kibibytes in range(4, 260, 8):
            if not campaign.full_disk("run", kibibytes):
                break
            disks += 1
        print(f"{campaign.runs} runs, {disks} full disks, {campaign.failed} failures")
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
