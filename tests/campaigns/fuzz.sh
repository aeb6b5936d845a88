#!/usr/bin/env bash
# Coverage-guided fuzzing of readers (tests/fuzz), one process a core, with clang's address and undefined-behaviour sanitizers.
#   tests/campaigns/fuzz.sh SECONDS [--build FOLDER] [--keep FOLDER] [--seed N] [READER...]
# SECONDS are those of one reader. --build: default build/fuzz, -O1; a folder that has its fuzzers is used as it is. --keep:
# what earlier rounds found is tried first, new inputs are added, and results.txt gets a line for each reader (name, inputs,
# processor seconds, MiB at most, commit); default a folder that is removed. READER: all that readers.txt of the build folder
# has. An input that fails stays in this folder and ends with exit code 1.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:?usage: fuzz.sh SECONDS [--build FOLDER] [--keep FOLDER] [--seed N] [READER...]}
shift
build=$here/build/fuzz keep='' seed=0 # libFuzzer draws a seed for 0
while [[ ${1:-} == --* ]]; do
  case $1 in
    --build) build=$(realpath -m "$2") ;;
    --keep) keep=$(realpath -m "$2") ;;
    --seed) seed=$2 ;;
    *) echo "unknown option '$1'; known: --build, --keep, --seed" >&2; exit 2 ;;
  esac
  shift 2
done
readers=$build/tests/fuzz/readers.txt
if [ ! -e "$readers" ]; then
  cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_UNITY_BUILD=ON \
    -DEPSIM_FUZZ=ON -DEPSIM_BENCHMARKS=OFF \
    "-DCMAKE_CXX_FLAGS=-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all" >/dev/null
  cmake --build "$build" --target fuzzers
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ $# -gt 0 ] || set -- $(cut -d' ' -f1 "$readers")
commit=$(git -C "$here" rev-parse --short=8 HEAD 2>/dev/null || echo -)
export here build seconds seed scratch commit readers keep=${keep:-$scratch}

fuzz() {
  local name=$1 leaks=1 program log=$scratch/$1.log
  program=$(sed -n "s/^$name //p" "$readers")
  [ -n "$program" ] || { echo "no reader '$name'; known: $(cut -d' ' -f1 "$readers" | xargs)" >&2; return 1; }
  mkdir -p "$keep/$name" "$scratch/$name.found"
  case $name in trace_*) leaks=0 ;; esac # the HDF5 library leaks on some damaged files
  TIMEFORMAT='%U %S'
  if ! { time ASAN_OPTIONS=detect_leaks=$leaks "$build/tests/fuzz/$program" -max_total_time="$seconds" -seed="$seed" -timeout=120 \
    -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$scratch/$name.found/" "$keep/$name" \
    "$here/tests/fuzz/corpus/$name" >"$log" 2>&1; } 2>"$scratch/$name.time"; then
    tail -40 "$log"
    cp "$scratch/$name.found"/* . 2>/dev/null || true
    echo "fuzzing: $name failed; the input is in this folder" >&2
    return 1
  fi
  stat() { sed -n "s/stat::$1: *//p" "$log"; }
  echo "$name $(stat number_of_executed_units) $(awk '{printf "%.0f", $1 + $2}' "$scratch/$name.time") $(stat peak_rss_mb) $commit" |
    tee -a "$keep/results.txt" | awk '{print "fuzzing: " $1 ", " $2 " inputs in " $3 " s, no failure"}'
}
export -f fuzz
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
