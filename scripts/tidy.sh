#!/usr/bin/env bash
# clang-tidy on the product's sources that changed, warnings as errors.
# Usage: scripts/tidy.sh [commit to compare with; default: origin/main's, or the one before] | scripts/tidy.sh FILE.cpp ...
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$#" -gt 0 ] && [ -f "$1" ]; then
  sources=("$@")
else
  base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
  [ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || base=HEAD~1
  mapfile -t sources < <(git diff --name-only --diff-filter=d "$base" -- 'sim/*.cpp' 'models/*.cpp' 'policies/*.cpp' \
    'traces/*.cpp' 'calibration/*.cpp')
fi
[ "${#sources[@]}" -gt 0 ] || { echo "tidy: no source changed"; exit 0; }
flags=(-std=c++20 -I. -isystem /usr/include/eigen3 -isystem /usr/include/hdf5/serial -DFMT_SHARED '-DEPSIM_VERSION=""')
printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -I{} clang-tidy --quiet {} -- "${flags[@]}" 2>/dev/null
