# bash completion of epsim. The words come from the program itself, so that they never differ from it.
_epsim_names() { epsim list "$1" 2>/dev/null | sed -n 's/^  \([^ ]\{1,\}\) .*/\1/p'; }

_epsim() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$verb" = help ]; }; then
    COMPREPLY=($(compgen -W "help $(epsim --help | sed -n 's/^  \([a-z]\{1,\}\)  .*/\1/p')" -- "$word"))
    return
  fi
  case "$before" in
    --policies)
      local done=""
      [[ $word == *,* ]] && done="${word%,*},"
      COMPREPLY=($(compgen -P "$done" -W "$(_epsim_names policies)" -- "${word##*,}"))
      return ;;
    --set | --vary)
      compopt -o nospace
      COMPREPLY=($(compgen -S = -W "$(epsim list keys 2>/dev/null | sed -n 's/^\([a-z]\)/\1/p')" -- "$word"))
      return ;;
  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(epsim help "$verb" 2>/dev/null | grep -o -e '--[a-z][a-z-]*' | sort -u)" -- "$word"))
    return
  fi
  if [ "$verb" = list ]; then
    COMPREPLY=($(compgen -W "$(epsim help list | sed -n 's/^epsim list \[\(.*\)\]$/\1/p' | tr '|' ' ') keys" -- "$word"))
    return
  fi
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "$word"))
}
complete -F _epsim epsim
