#!/bin/bash
# A sweep run by several processes of an engine, with kill -9 at random times, against the same sweep on one thread: the
# folders must be equal byte for byte, and every point there once.
#   kills.sh processes|mpi|slurm EPSIM SCENARIO ROUNDS [SEED]
# Exit code 77, with a message, where the engine is not there.
set -u +m
engine=$1 epsim=$2 scenario=$3 rounds=$4
RANDOM=${5:-1}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/epsim-engines-XXXXXX)
chmod 755 "$work"
points=24
sweep=("$epsim" sweep "$scenario" -q --set requests.count=300
  --vary requests.rate=10/s,20/s,40/s --vary seed=1,2,3,4 --policies base,eplb --only-listed)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_mpi_yield_when_idle=1

finish() {
  [ "$engine" = slurm ] && "$here/slurm.sh" stop "$work"
  rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $1"; exit 1; }
a_while() { sleep "0.$((RANDOM % 9))$((RANDOM % 10))"; }

# Numbers of the processes that work on a folder.
workers() { pgrep -f "$epsim sweep.* -o $1( |\$)"; }

# Waits until `count` processes work on the folder.
await_workers() {
  for ((i = 0; i < 300; ++i)); do
    [ "$(workers "$1" | wc -l)" -ge "$2" ] && return
    sleep 0.02
  done
}

compare() {
  diff -r --exclude=slurm "$work/whole" "$1" >"$work/diff.txt" || fail "$1 differs: $(head -3 "$work/diff.txt")"
  local found
  found=$(grep -ac '^job ' "$1/points.pack")
  [ "$found" = $points ] || fail "$found points instead of $points in $1"
}

# Three processes on a folder. Each round kills one or two of them; one more goes on to the end.
of_processes() {
  local folder=$1 i
  for i in 1 2 3; do
    "${sweep[@]}" --threads 1 -o "$folder" >/dev/null 2>"$work/err$i.txt" &
  done
  await_workers "$folder" 3
  for ((i = 0; i <= RANDOM % 2; ++i)); do
    a_while
    kill -9 "$(workers "$folder" | shuf -n1 --random-source=<(yes $RANDOM))" 2>/dev/null && ((++killed))
  done
  wait 2>/dev/null
  "${sweep[@]}" -o "$folder" >/dev/null || fail "the command does not go on: $?"
}

# Three ranks. Open MPI ends them all when rank 0 dies; the same command goes on from the folder. Told to go on without a
# rank (orte_enable_recovery), the others finish the sweep; inside MPI_Init they would wait for it, so it dies later.
of_mpi() {
  local folder=$1 victim i pids
  mpirun -n 3 "${sweep[@]}" --threads 1 -o "$folder" >/dev/null 2>"$work/err.txt" &
  await_workers "$folder" 4  # with mpirun itself
  a_while
  pids=($(workers "$folder" | grep -vx $!))  # rank 0 is the first
  [ ${#pids[@]} -gt 0 ] && kill -9 "${pids[0]}" 2>/dev/null && ((++killed))
  wait $!
  [ -f "$folder/results.csv" ] && return
  victim=$((RANDOM % 3))
  mpirun --mca orte_enable_recovery 1 -n 3 "${sweep[@]}" --threads 1 -o "$folder" >/dev/null 2>"$work/err.txt" &
  for ((i = 0; i < 1000; ++i)); do
    pids=($(pgrep -x -f "$epsim sweep.* -o $folder"))
    [ "$(ls "$folder"/points/*.pack 2>/dev/null | grep -c -e "-${pids[0]:-x}\.pack" -e "-${pids[1]:-x}\.pack" -e "-${pids[2]:-x}\.pack")" = 3 ] && break
    [ -f "$folder/results.csv" ] && break
    sleep 0.02
  done
  a_while
  [ ${#pids[@]} = 3 ] && kill -9 "${pids[$victim]}" 2>/dev/null && ((++killed))
  # Without rank 0 the others wait for ever; without another one they finish, and may wait for it in MPI_Finalize.
  for ((i = 0; i < (victim == 0 ? 10 : 500); ++i)); do
    [ -f "$folder/results.csv" ] && break
    sleep 0.2
  done
  sleep 1
  kill -9 $(workers "$folder" | grep -vx $!) 2>/dev/null
  wait $! 2>/dev/null
  [ "$victim" = 0 ] || [ -f "$folder/results.csv" ] ||
    fail "without rank $victim the others do not finish: $(tail -3 "$work/err.txt")"
  mpirun -n 3 "${sweep[@]}" --threads 1 -o "$folder" >/dev/null 2>"$work/err.txt" || fail "mpirun: $(tail -3 "$work/err.txt")"
}

# An array of four parts and a gathering job; a part's process and a slurmd are killed meanwhile.
of_slurm() {
  local folder=$1 i node
  "${sweep[@]}" --threads 1 -o "$folder" --slurm --submit --array 4 >"$work/submit.txt" || fail "submit: $(cat "$work/submit.txt")"
  await_workers "$folder" 1
  a_while
  kill -9 "$(workers "$folder" | shuf -n1 --random-source=<(yes $RANDOM))" 2>/dev/null && ((++killed))
  a_while
  node=n$((1 + RANDOM % 2))
  kill -9 "$(cat "$work/$node.pid")" && ((++killed))
  sleep 1
  slurmd -f "$SLURM_CONF" -N $node || fail "slurmd does not come back"
  for ((i = 0; i < 600; ++i)); do
    [ -f "$folder/results.csv" ] && [ "$(squeue -h | wc -l)" = 0 ] && break
    sleep 0.2
  done
  "$epsim" sweep --status "$folder" | grep -q "$points of $points points done, 0 of them failed; 0 running, 0 left" ||
    fail "status: $("$epsim" sweep --status "$folder"; squeue; cat "$folder"/slurm/*.log)"
}

case $engine in
  processes) ;;
  mpi) command -v mpirun >/dev/null || { echo "skipped: no mpirun (apt-get install openmpi-bin)"; exit 77; } ;;
  slurm)
    "$here/slurm.sh" start "$work" || exit $?
    export SLURM_CONF=$work/slurm.conf PATH=$PATH:/usr/sbin
    ;;
  *) echo "unknown engine $engine"; exit 2 ;;
esac

"${sweep[@]}" --threads 1 -o "$work/whole" >/dev/null || fail "the sweep on one thread: $?"
killed=0
for ((round = 1; round <= rounds; ++round)); do
  of_$engine "$work/r$round"
  compare "$work/r$round"
  rm -rf "$work/r$round"
done
[ "$killed" -gt 0 ] || fail "every sweep ended before a process of it was killed"
echo "$engine: $rounds rounds, $killed processes killed, results equal byte for byte"
