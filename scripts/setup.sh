#!/usr/bin/env bash
# Installs what the build needs and is missing (Debian 12, Ubuntu 24.04). Sourced or run; safe to repeat.
# Not installed, as only measuring a GPU machine needs them: the CUDA toolkit, and for collectives over several nodes
# NCCL and MPI (libopenmpi-dev, openmpi-bin). Nor what the Python module alone needs: pybind11-dev, python3-dev,
# python3-numpy (python3-pandas for to_pandas()). Nor libglpk-dev, against which one test holds LPLB. What is there is used
# by scripts/test.sh and calibration/run.sh.
set -euo pipefail

packages=(g++ cmake ninja-build libboost-graph-dev libboost-program-options-dev libeigen3-dev libtbb-dev libhdf5-dev
  libarchive-dev zlib1g-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev doctest-dev libbenchmark-dev node-d3)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done

if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "these packages are missing and neither root nor sudo is at hand to install them" >&2; exit 1; }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
