#!/usr/bin/env bash
# Formats all C++ with clang-format 14 (Debian 12's; others differ in details). With --check it changes nothing and fails
# where a file is not formatted; exit code 77: no clang-format 14, or no git.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || true)
[ -n "$tool" ] && git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "no clang-format-14 or no git: not checked"; exit 77; }
how=(-i)
[ "${1:-}" = --check ] && how=(--dry-run -Werror)
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 -n 50 -P "$(nproc)" "$tool" "${how[@]}"
