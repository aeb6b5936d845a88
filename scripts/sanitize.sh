#!/usr/bin/env bash
# Builds the libraries with clang, the address and the undefined-behaviour sanitizer, and runs what is quick then: tests of
# the core and the engine, a comparison with its report, and libFuzzer with a fixed seed on every reader.
# Usage: scripts/sanitize.sh [seconds of fuzzing on one core, all readers together; default 60]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
flags="-O0 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
cmake -S . -B build/sanitized -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_UNITY_BUILD=ON \
  -DEPSIM_FUZZ=ON -DEPSIM_BENCHMARKS=OFF "-DCMAKE_CXX_FLAGS=$flags" >/dev/null
cmake --build build/sanitized --target epsim core_tests engine_tests fuzzers

build/sanitized/tests/core/core_tests
build/sanitized/tests/engine/engine_tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/sanitized/sim/app/epsim compare tests/fuzz/corpus/scenario/small.yaml --policies base,eplb -q -o "$work/compare" >/dev/null
build/sanitized/sim/app/epsim report "$work/compare" >/dev/null

readers=build/sanitized/tests/fuzz/readers.txt
export work each=$(((seconds + $(wc -l <$readers) - 1) / $(wc -l <$readers)))
fuzz() {
  local name=$1 leaks=1
  mkdir "$work/$name" "$work/$name.found"
  case $name in trace_*) leaks=0 ;; esac  # the HDF5 library leaks on some damaged files
  if ! ASAN_OPTIONS=detect_leaks=$leaks "build/sanitized/tests/fuzz/$2" -max_total_time=$each -seed=1 -timeout=120 \
    -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$work/$name.found/" "$work/$name" "tests/fuzz/corpus/$name" \
    >"$work/$name.log" 2>&1; then
    tail -40 "$work/$name.log"
    cp "$work/$name.found"/* . 2>/dev/null || true
    echo "fuzzing: $name failed; the input is in this folder" >&2
    return 1
  fi
  echo "fuzzing: $name, $(sed -n 's/stat::number_of_executed_units: //p' "$work/$name.log") inputs, no failure"
}
export -f fuzz
xargs -P "$(nproc)" -L1 bash -c 'fuzz "$@"' fuzz <$readers
