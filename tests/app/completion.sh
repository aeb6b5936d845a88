#!/usr/bin/env bash
# usage: completion.sh EPSIM SOURCE WORK
# Types words into bash and zsh, each with its completion of epsim, and compares what they become.
set -euo pipefail
epsim=$1 source=$2 work=$3
rm -rf "$work"
mkdir -p "$work/bin" "$work/home"
ln -s "$epsim" "$work/bin/epsim"
cd "$work"
cat > cases << 'END'
epsim comp|epsim compare
epsim help swe|epsim help sweep
epsim help trace sl|epsim help trace slice
epsim compare --overw|epsim compare --overwrite
epsim run small.yaml --stri|epsim run small.yaml --strict-calibration
epsim compare --policies base,cra|epsim compare --policies base,craft
epsim run --set requests.think|epsim run --set requests.think_time=
epsim list eng|epsim list engines
epsim list ke|epsim list keys
epsim list keys dispatch.ded|epsim list keys dispatch.dedup
epsim list --topo|epsim list --topology
epsim trace ge|epsim trace generate
epsim trace slice t.h5 --ro|epsim trace slice t.h5 --rows
epsim calibrate ex|epsim calibrate export
epsim compare --policies base,w|epsim compare --policies base,waterfill
epsim init --node DGX-H2|epsim init --node DGX-H200
epsim init --model OL|epsim init --model OLMoE-1B-7B
epsim reproduce cr|epsim reproduce craft
epsim report out-of-t|epsim report out-of-the-way.json
END
touch out-of-the-way.json

compare() { # SHELL GIVEN
  cut -d'|' -f2 cases | diff - "$2" || { echo "completion of $1: expected on the left, given on the right"; exit 1; }
  echo "completion of $1: $(wc -l < cases) words"
}

cat > words.bash << 'END'
source "$1/scripts/completion/epsim.bash"
compopt() { :; }
while IFS='|' read -r typed _; do
  COMP_WORDS=($typed)
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _epsim
  echo "${typed% *} ${COMPREPLY[*]}"
done < cases
END
PATH="$work/bin:$PATH" bash words.bash "$source" > bash.given
compare bash bash.given

if ! command -v zsh > /dev/null; then
  echo "zsh is not installed: its completion is not tested"
  exit 77
fi
# A real line editor on a pseudo terminal. Control-T completes, shows the line between marks and clears it.
cat > words.zsh << 'END'
zmodload zsh/zpty || exit 1
zpty shell env HOME=$PWD/home TERM=dumb PATH=$PWD/bin:$PATH zsh -f -i
type_line() { zpty -w shell "$1"; }
type_line "fpath=(${(q)1}/scripts/completion \$fpath); autoload -U compinit; compinit -u -D; unsetopt prompt_cr"
type_line 'show() { zle complete-word; print -r -- "<<${BUFFER% }>>"; BUFFER=""; }; zle -N show; bindkey "^T" show'
type_line 'print READY-''TO-TYPE'
zpty -r -m shell text '*READY-TO-TYPE*' || exit 1
while IFS='|' read -r typed expected; do
  zpty -w -n shell "$typed"$'\x14'
  zpty -r -m shell text '*<<epsim*>>*' || exit 1
  print -r -- "${${text##*<<}%%>>*}"
done < cases
zpty -d shell
END
timeout 60 zsh -f words.zsh "$source" > zsh.given || { echo "zsh gave no answer to: $(wc -l < zsh.given)"; cat zsh.given; exit 1; }
compare zsh zsh.given
