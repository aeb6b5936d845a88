#!/usr/bin/env bash
# The tests whose code runs on several threads, under ThreadSanitizer.
#   tests/campaigns/threads.sh [BUILD_FOLDER]
# oneTBB's loops run on std::thread here (threads/tbb), as Debian's library is not instrumented. A report ends with exit
# code 1; it stands in BUILD_FOLDER/*.log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath -m "${1:-build/threads}")
suites="core cluster study golden policies reproduce"
cmake -S "$here/../.." -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_CXX_FLAGS="-O1 -g1 -fsanitize=thread -I$here/threads" -DCMAKE_EXE_LINKER_FLAGS=-fsanitize=thread >/dev/null
# shellcheck disable=SC2046,SC2086
ninja -C "$build" $(printf '%s_tests ' $suites) >/dev/null
export TSAN_OPTIONS="exitcode=66 history_size=4 suppressions=$here/threads/suppressions.txt"
failed=0
for suite in $suites; do
  rc=0
  (cd "$here/../.." && "$build/tests/$suite/${suite}_tests") >"$build/$suite.log" 2>&1 || rc=$?
  echo "$suite: exit code $rc, $(grep -c 'WARNING: ThreadSanitizer' "$build/$suite.log" || true) reports"
  [ "$rc" = 0 ] || failed=1
done
exit $failed
