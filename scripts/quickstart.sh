#!/usr/bin/env bash
# Installs what is missing, builds epsim and answers: should load balancing be on for DeepSeek-R1 on 8 p4de nodes, by
# which policy, and what does it cost in KV room?
set -euo pipefail
cd "$(dirname "$0")/.."

./scripts/setup.sh
echo "== build: about 4 minutes on 2 cores"
cmake --preset release -DEPSIM_TESTS=OFF -DEPSIM_BENCHMARKS=OFF -DCMAKE_UNITY_BUILD=ON -B build/quickstart >/dev/null
cmake --build build/quickstart --target epsim
epsim=build/quickstart/sim/app/epsim
search=(goodput experiments/quickstart/deepseek-r1-p4de.yaml --policies contiguous,base,eplb,craft
        --slo 'ttft.p99<10s,tpot.mean<500ms' --tolerance 0.05 --output out/quickstart --overwrite)
echo "== epsim ${search[*]@Q}: about a minute"
[ -t 2 ] || search+=(--quiet)
"$epsim" "${search[@]}"
"$epsim" report out/quickstart --overwrite
