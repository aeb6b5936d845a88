#!/usr/bin/env bash
# Makes build/packages/epsim-VERSION.tar.gz and epsim_VERSION_ARCH.deb of one commit. The package is built from the tarball.
# Both are the same bytes wherever and whenever they are built with the same compiler and libraries.
# Usage: scripts/package.sh [commit]   default HEAD
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${1:-HEAD}^{commit}")
command -v dpkg-shlibdeps >/dev/null || { echo "dpkg-shlibdeps is missing: apt-get install dpkg-dev" >&2; exit 1; }
export SOURCE_DATE_EPOCH LC_ALL=C
SOURCE_DATE_EPOCH=$(git show -s --format=%ct "$commit")
version=$(git show "$commit:CMakeLists.txt" | sed -n 's/^project(epsim VERSION \([0-9.]*\).*/\1/p')
out=$PWD/build/packages
work=$(mktemp -d "${TMPDIR:-/tmp}/epsim-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

umask 022
mkdir -p "$out"
git archive --format=tar --prefix="epsim-$version/" "$commit" | gzip -n -9 > "$work/epsim-$version.tar.gz"
tar -xzf "$work/epsim-$version.tar.gz" -C "$work"
# Paths of this build do not reach the program.
cmake -S "$work/epsim-$version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
  -DEPSIM_TESTS=OFF -DEPSIM_BENCHMARKS=OFF "-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$work=." >/dev/null
cmake --build "$work/build" --target epsim
(cd "$work/build" && cpack --config CPackConfig.cmake -B "$work/packages" >/dev/null)
mv "$work/epsim-$version.tar.gz" "$work"/packages/*.deb "$out/"
(cd "$out" && sha256sum "epsim-$version.tar.gz" "epsim_${version}"_*.deb)
