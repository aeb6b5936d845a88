#!/usr/bin/env python3
"""Does every source compile by itself? A unity build, as CI makes it, hides what a source forgets to include.

    tests/campaigns/alone.py [--build FOLDER] [--jobs N]

Reads each source as the compiler does and generates no code: some 2 s of processor time each. Generated ones are left out.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GENERATED = "calibration/measure/provenance.cpp"  # includes a header that a build writes


def errors_of(entry):
    """What the compiler says of a source; nothing where it compiles."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    words = [word for i, word in enumerate(words) if i not in (at, at + 1) and word != "-c" and not word.startswith("-O")]
    done = subprocess.run(words + ["-fsyntax-only", "-w"], cwd=entry["directory"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    subprocess.run(["cmake", "-S", SOURCE, "-B", given.build, "-G", "Ninja"], check=True, stdout=subprocess.DEVNULL)
    entries = {entry["file"]: entry for entry in json.loads((pathlib.Path(given.build) / "compile_commands.json").read_text())}
    sources = [file for file in entries if pathlib.Path(file).exists() and SOURCE in pathlib.Path(file).parents and not file.endswith(GENERATED)
               and not file.startswith(str(pathlib.Path(given.build).resolve()))]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for file, errors in zip(sources, pool.map(errors_of, [entries[file] for file in sources])):
            if errors:
                failed += 1
                print(f"{file}\n{errors}", flush=True)
    print(f"{len(sources)} sources, {failed} do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
