# bash completion of epsim. The words come from the program itself, so that they never differ from it.
# The names of a list, of all its parts or of those whose heading matches.
_epsim_names() {
  epsim list "$1" 2>/dev/null | awk -v part="${2:-.}" '/^[^ ]/ { named = $0 ~ part } named && /^  [^ ]/ { print $1 }'
}
# The words that a help text lists, one a line after two blanks.
_epsim_verbs() { epsim "$@" --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p'; }
_epsim_keys() { epsim list keys 2>/dev/null | sed -n 's/^\([a-z]\)/\1/p'; }
_epsim_offer() { COMPREPLY=($(compgen "${@:2}" -W "$1" -- "$word")); }

_epsim() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} line=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  COMPREPLY=()
  # bash splits words at '=': a value after --set key= is a word of its own.
  [ "$before" = "=" ] || [ "$word" = "=" ] && return
  if [ "${line[0]}" = help ]; then
    [[ $word == -* ]] && { _epsim_offer --man; return; }
    line=("${line[@]:1}")
    [ ${#line[@]} -eq 0 ] && { _epsim_offer "$(_epsim_verbs)"; return; }
  fi
  local verb=("${line[0]}")
  case $verb in
    "") _epsim_offer "help $(_epsim_verbs)"; return ;;
    trace | calibrate)
      [ ${#line[@]} -eq 1 ] && { _epsim_offer "$(_epsim_verbs "$verb")"; return; }
      verb+=("${line[1]}") ;;
  esac
  case "$before" in
    --policies)
      local done=""
      [[ $word == *,* ]] && done="${word%,*},"
      COMPREPLY=($(compgen -P "$done" -W "$(_epsim_names policies "^(policies|ceilings)")" -- "${word##*,}"))
      return ;;
    --node) _epsim_offer "$(_epsim_names hardware ^nodes)"; return ;;
    --engine) _epsim_offer "$(_epsim_names engines)"; return ;;
    --model) _epsim_offer "$(_epsim_names models)" -f; return ;;
    --set | --vary)
      compopt -o nospace
      _epsim_offer "$(_epsim_keys)" -S =
      return ;;
  esac
  if [[ $word == -* ]]; then
    _epsim_offer "$(epsim help "${verb[@]}" 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u)"
  elif [ "$verb" = list ] && [ ${#line[@]} -eq 1 ]; then
    _epsim_offer "$(epsim help list | sed -n 's/^epsim list \[\(.*\)\]$/\1/p' | tr '|' ' ') keys"
  elif [ "$verb" = list ] && [ "$before" = keys ]; then
    _epsim_offer "$(_epsim_keys)"
  elif [ "$verb" = reproduce ] && [ ${#line[@]} -eq 1 ]; then
    _epsim_offer "craft grace libra"
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -F _epsim epsim
