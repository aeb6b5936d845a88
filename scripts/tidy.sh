#!/usr/bin/env bash
# clang-tidy on the product's sources that changed, warnings as errors (.clang-tidy). Headers, and sources that need Python,
# CUDA, MPI or generated headers, are left out.
# Usage: scripts/tidy.sh [commit to compare with; default: origin/main's, or the one before] | scripts/tidy.sh FILE.cpp ...
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "tidy: no clang-tidy (apt-get install clang-tidy)" >&2; exit 1; }
if [ "$#" -gt 0 ] && [ -f "$1" ]; then
  changed=$(printf '%s\n' "$@")
else
  base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
  base=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "tidy: '${1:-HEAD}' is neither a file nor a commit" >&2; exit 2; }
  [ "$base" != "$(git rev-parse HEAD)" ] || base=HEAD~1
  changed=$(git diff --name-only --relative --diff-filter=d "$base" -- '*.cpp' ':!tests' ':!experiments' ':!sim/python' \
    ':!calibration/cuda' ':!calibration/mpi' ':!calibration/measure/provenance.cpp')
fi
[ -n "$changed" ] || { echo "tidy: no source changed"; exit 0; }
flags=(-std=c++20 -I. -isystem /usr/include/eigen3 -isystem /usr/include/hdf5/serial -DFMT_SHARED '-DEPSIM_VERSION=""')
tidy='set -o pipefail; clang-tidy --quiet "$@" 2>&1 | { grep -v "warnings\? generated" || true; }'
xargs -d '\n' -P "$(nproc)" -I{} bash -c "$tidy" bash {} -- "${flags[@]}" <<<"$changed"
