#!/usr/bin/env bash
# Builds the libraries with clang, the address and the undefined-behaviour sanitizer, and runs what is quick then: tests of
# the core and the engine, a comparison with its report, and libFuzzer with a fixed seed on every reader.
# Usage: scripts/sanitize.sh [seconds of fuzzing on one core, all readers together; default 60]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
# Four checks take as much code as all others together, and tracing comparisons a quarter of the compiler's time; the
# campaign (tests/campaigns/fuzz.sh) and the preset dev have them.
flags="-O0 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,null,alignment,function"
flags+=" -fno-sanitize-recover=all -fno-sanitize-coverage=trace-cmp,indirect-calls,stack-depth"
linker=""
command -v ld.lld >/dev/null && linker=-fuse-ld=lld  # 2 s a program in place of 15
cmake -S . -B build/sanitized -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_UNITY_BUILD=ON \
  -DEPSIM_FUZZ=ON -DEPSIM_BENCHMARKS=OFF "-DCMAKE_CXX_FLAGS=$flags" \
  "-DCMAKE_EXE_LINKER_FLAGS=$linker" >/dev/null
cmake --build build/sanitized --target epsim core_tests engine_tests fuzzers

build/sanitized/tests/core/core_tests
build/sanitized/tests/engine/engine_tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/sanitized/sim/app/epsim compare tests/fuzz/corpus/scenario/small.yaml --policies base,eplb -q -o "$work/compare" >/dev/null
build/sanitized/sim/app/epsim report "$work/compare" >/dev/null

readers=$(wc -l <build/sanitized/tests/fuzz/readers.txt)
each=$((seconds / readers))  # 0 would be without end
tests/campaigns/fuzz.sh $((each > 0 ? each : 1)) --build build/sanitized --seed 1
