#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests. Ends with ctest's own summary.
# Usage: scripts/test.sh [preset]   release (default), dev (address and undefined-behaviour sanitizers), tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
case "$preset" in
  release | dev | tsan) ;;
  *) echo "unknown preset '$preset'; known: release, dev, tsan" >&2; exit 2 ;;
esac

./scripts/setup.sh

can_fuzz='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
if [ "$preset" = release ] && clang++ -fsanitize=fuzzer -x c++ - -o /dev/null <<<"$can_fuzz" 2>/dev/null; then
  echo "== clang with sanitizers, fuzzing"
  ./scripts/sanitize.sh 60
else
  echo "no clang++ with libFuzzer, or not the release preset (apt-get install clang): the sanitized build is skipped"
fi

if [ "$preset" = release ] && command -v clang-tidy >/dev/null && git rev-parse -q --verify HEAD~1 >/dev/null; then
  echo "== clang-tidy on what changed"
  ./scripts/tidy.sh
else
  echo "no clang-tidy, not the release preset or no commit to compare with (apt-get install clang-tidy): it is skipped"
fi

options=(-DCMAKE_UNITY_BUILD=ON)  # sources in batches: a third of the time
command -v ld.lld >/dev/null && options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld)  # half a minute for all programs
if command -v nvcc >/dev/null && [ "$preset" = release ]; then
  echo "nvcc found: the CUDA part is compiled and linked too"
  options+=(-DEPSIM_CUDA=ON -DEPSIM_CUDA_ARCHITECTURES=90)  # one: kernels are compiled, not run
fi
if command -v mpicxx >/dev/null && command -v mpirun >/dev/null && [ "$preset" = release ]; then
  echo "MPI found: the measurements over several nodes are compiled, linked and tested too"
  options+=(-DEPSIM_MPI=ON)
else
  echo "no MPI, or not the release preset (apt-get install libopenmpi-dev openmpi-bin): its tests are skipped"
fi
# The Python module, for the first of these that has NumPy and headers.
can_build_module='import numpy, os, sysconfig; assert os.path.exists(sysconfig.get_paths()["include"] + "/Python.h")'
python=$(for each in python3 /usr/bin/python3; do "$each" -c "$can_build_module" 2>/dev/null && echo "$each" && break; done || true)
if [ -n "$python" ] && [ -d /usr/include/pybind11 ] && [ "$preset" = release ]; then
  options+=(-DEPSIM_PYTHON=ON "-DPython_EXECUTABLE=$(command -v "$python")")
else
  echo "no pybind11, Python headers or NumPy, or not the release preset (apt-get install pybind11-dev python3-dev" \
    "python3-numpy): the tests of the Python module are skipped"
fi
echo "== build ($preset)"
cmake --preset "$preset" "${options[@]}" >/dev/null
cmake --build --preset "$preset"
echo "== test"
ctest --preset "$preset" -j "$(nproc)"
