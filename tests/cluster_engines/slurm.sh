#!/bin/bash
# A Slurm of this machine alone, for tests: munged, slurmctld and two slurmds on loopback, all below one folder.
#   slurm.sh start FOLDER    prints nothing; exit code 77 with a message where it cannot start
#   slurm.sh stop FOLDER
# Set SLURM_CONF=FOLDER/slurm.conf for sbatch, squeue and the like. Processes write their numbers to FOLDER/*.pid.
set -u
export PATH=$PATH:/usr/sbin
folder=$2

skip() { echo "skipped: $1"; exit 77; }

stop() {
  for pid in "$folder"/*.pid; do
    [ -f "$pid" ] && kill "$(cat "$pid")" 2>/dev/null
  done
  for _ in $(seq 50); do  # slurmctld saves its state first, and then takes its pid file away
    [ -f "$folder/slurmctld.pid" ] || break
    sleep 0.1
  done
}

start() {
  for program in munged slurmctld slurmd sbatch; do
    command -v $program >/dev/null || skip "no $program (apt-get install slurm-wlm munge)"
  done
  [ "$(id -u)" = 0 ] || skip "slurmd needs root to start jobs"
  mkdir -p "$folder/state" "$folder/spool1" "$folder/spool2"
  chmod 755 "$folder"
  local base=$((20000 + $$ % 20000))
  (umask 077; head -c 1024 /dev/urandom >"$folder/munge.key")
  munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed" --force 2>"$folder/munged.err" ||
    skip "munged does not start: $(tail -1 "$folder/munged.err")"
  cat >"$folder/slurm.conf" <<END
ClusterName=epsimtest
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$base
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdPidFile=$folder/%n.pid
SlurmctldPidFile=$folder/slurmctld.pid
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobRequeue=1
KillWait=2
SlurmdTimeout=10
SlurmctldTimeout=10
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
END
  export SLURM_CONF=$folder/slurm.conf
  slurmctld -f "$SLURM_CONF" 2>"$folder/slurmctld.err" || skip "slurmctld does not start: $(tail -1 "$folder/slurmctld.err")"
  for node in n1 n2; do
    slurmd -f "$SLURM_CONF" -N $node 2>"$folder/$node.err" || skip "slurmd does not start: $(tail -1 "$folder/$node.err")"
  done
  for _ in $(seq 100); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && return
    sleep 0.2
  done
  local why
  why=$(tail -2 "$folder/slurmctld.log" "$folder/n1.log" 2>/dev/null | tr '\n' ' ')
  stop
  skip "no idle nodes: $why"
}

"$1"
