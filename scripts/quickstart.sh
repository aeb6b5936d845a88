#!/usr/bin/env bash
# Installs what is missing, builds epsim and answers: BASE or EPLB for DeepSeek-R1 on 8 p4de nodes, and what does it cost?
set -euo pipefail
cd "$(dirname "$0")/.."

./scripts/setup.sh
echo "== build"
cmake --preset release -DEPSIM_TESTS=OFF -DEPSIM_BENCHMARKS=OFF -B build/quickstart >/dev/null
cmake --build build/quickstart --target epsim
echo "== epsim compare experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb --output out/quickstart --overwrite"
build/quickstart/sim/app/epsim compare experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb \
  --output out/quickstart --overwrite
build/quickstart/sim/app/epsim report out/quickstart --overwrite
