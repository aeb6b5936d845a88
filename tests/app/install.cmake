# Installs the program into a folder of its own and uses it from another one, as a user of a package would.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK}/elsewhere RESULT_VARIABLE failed OUTPUT_VARIABLE out
    ERROR_VARIABLE err)
  if(failed)
    string(JOIN " " words ${ARGN})
    message(FATAL_ERROR "${words}\nended with ${failed}\n${out}\n${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/elsewhere)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component program --config ${CONFIG})
set(epsim ${WORK}/prefix/bin/epsim)

# Neither the scenarios nor the loads that they refer to are in this folder.
run(${epsim} validate experiments/quickstart/deepseek-r1-p4de.yaml --policies base,eplb)
if(NOT out MATCHES "the scenario is valid")
  message(FATAL_ERROR "not what validate says:\n${out}")
endif()
run(${epsim} list --topology experiments/gallery/qwen3-235b-h200.yaml -o -)

# README's block of commands, as the installed README has it, with few requests; app.quickstart runs its search.
file(WRITE ${WORK}/readme.sh [==[
set -euo pipefail
commands=$(sed -n '/^```sh$/,/^```$/{/^```/d;p}' "$1/share/doc/epsim/README.md")
epsim() {
  case $2 in
    compare | sweep) "$@" --set requests.count=24 ;;
    goodput) ;;
    *) "$@" ;;
  esac
}
eval "${commands//epsim /epsim $1/bin/epsim }"
]==])
run(bash ${WORK}/readme.sh ${WORK}/prefix)
if(NOT EXISTS ${WORK}/elsewhere/out/deepseek-r1-p4de/report.html)
  message(FATAL_ERROR "README's commands wrote no report")
endif()

file(READ ${WORK}/prefix/share/man/man1/epsim.1 manual)
foreach(part ".TH EPSIM 1" ".SH \"epsim compare\"" ".SH \"epsim list\"")
  string(FIND "${manual}" "${part}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "the manual page lacks ${part}")
  endif()
endforeach()

# Completion: a word and what it becomes.
file(WRITE ${WORK}/complete.sh [==[
export PATH="$1/bin:$PATH"
source "$1/share/bash-completion/completions/epsim"
compopt() { :; }
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _epsim; echo "${COMPREPLY[*]}"; }
complete_words epsim comp
complete_words epsim compare --overw
complete_words epsim compare --policies base,cra
complete_words epsim run --set cluster.nod
complete_words epsim list eng
]==])
run(bash ${WORK}/complete.sh ${WORK}/prefix)
set(expected "compare\n--overwrite\nbase,craft\ncluster.node= cluster.nodes=\nengines\n")
if(NOT out STREQUAL expected)
  message(FATAL_ERROR "completion gives:\n${out}and should give:\n${expected}")
endif()
