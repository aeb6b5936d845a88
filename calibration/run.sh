#!/usr/bin/env bash
# Calibrates this machine: builds with CUDA (NCCL and MPI where found), tests the kernels on the GPU, measures, fits, and
# leaves raw points and profile under calibration/profiles/<machine>/. Safe to repeat: a sweep that was cut off goes on.
# Usage: calibration/run.sh [quick | full] [further options of epsim-calibrate, such as --only grouped_gemm]
# Exit codes: 0 done; 1 no GPU, no nvcc, or a step failed; 2 bad usage; 130 interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-full}
[ $# -gt 0 ] && shift
case "$mode" in
  quick | full) ;;
  *) echo "calibration/run.sh: unknown mode '$mode'; known: quick, full" >&2; exit 2 ;;
esac

fail() { echo "calibration/run.sh: $*" >&2; exit 1; }

command -v nvidia-smi >/dev/null || fail "there is no nvidia-smi, so no NVIDIA driver; run this on a machine with a GPU"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 2>/dev/null) ||
  fail "nvidia-smi finds no GPU: $(nvidia-smi 2>&1 | head -1)"
command -v nvcc >/dev/null || PATH="$PATH:/usr/local/cuda/bin"
command -v nvcc >/dev/null ||
  fail "there is no nvcc; install the CUDA toolkit, 12.5 or later (https://developer.nvidia.com/cuda-downloads)"

./scripts/setup.sh

build=build/calibrate
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DEPSIM_CUDA=ON -DEPSIM_BENCHMARKS=OFF -DEPSIM_HEADER_CHECKS=OFF
  "-DEPSIM_CUDA_ARCHITECTURES=${capability//./}")
if command -v mpicxx >/dev/null; then
  options+=(-DEPSIM_MPI=ON)
fi
echo "== build for compute capability $capability"
cmake -S . -B "$build" "${options[@]}" >/dev/null
cmake --build "$build" --target epsim epsim-calibrate epsim_gpu_tests

echo "== test the kernels on the GPU"
gpu_tests=$build/tests/calibration/epsim_gpu_tests
"$gpu_tests"
if command -v compute-sanitizer >/dev/null; then
  echo "== the same once under compute-sanitizer"
  compute-sanitizer --tool memcheck --error-exitcode 1 "$gpu_tests" --test-case-exclude='*collectives*'
else
  echo "compute-sanitizer is not installed: memory accesses are not checked"
fi

calibrate=$build/calibration/epsim-calibrate
machine=$("$calibrate" --machine-name)
folder=calibration/profiles/$machine
points=$folder/points.h5
mkdir -p "$folder"
again=()
[ -e "$points" ] && again=(--resume)
echo "== measure ($mode)"
"$calibrate" "--$mode" --machine "$machine" --output "$points" "${again[@]}" "$@"

# The catalogue's name of the GPU, whose data-sheet rates the fit's terms are stated in.
case "$machine" in
  a100*) gpu=A100-80 ;;
  h100*) gpu=H100 ;;
  h200*) gpu=H200 ;;
  h800*) gpu=H800 ;;
  b200*) gpu=B200 ;;
  gb200*) gpu=GB200 ;;
  *) gpu=$machine ;;
esac
# One GPU's NVLink ports in each direction, by the data sheet, which NCCL's points inside a node are stated in.
case "$gpu" in
  A100-80) links=(--link-rate 300GB/s) ;;
  H100 | H200) links=(--link-rate 450GB/s) ;;
  H800) links=(--link-rate 200GB/s) ;;
  B200 | GB200) links=(--link-rate 900GB/s) ;;
  *) links=() ;;
esac
echo "== fit"
fit=$(mktemp -d)/fit
"$build"/sim/app/epsim calibrate fit "$points" -o "$fit" --gpu "$gpu" "${links[@]}" ||
  fail "the points are in $points; fit them with: epsim calibrate fit $points -o FOLDER --gpu NAME"
mv "$fit"/* "$folder"/
echo "done: $folder (raw points in points.h5, profile in fit.yaml, errors in errors.csv)"
