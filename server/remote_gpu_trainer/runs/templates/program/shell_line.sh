# A command that is a line of shell.

# RGT_COMMAND with further arguments, in rgt_argv. A shell line gets them at its end, before a last
# `| tee log`, which must hide neither the arguments from the program nor its exit status from us.
rgt_with_arguments() {
  local word line last='' strict=$'set -o pipefail\n'
  local tee='^(.*[^|])([|]&?[[:space:]]*tee([[:space:]][^|;&]*)?)$'
  rgt_argv=("${RGT_COMMAND[@]}")
  if [[ ${#rgt_argv[@]} == 3 && ${rgt_argv[0]##*/} == bash && ${rgt_argv[1]} == -c ]]; then
    line=${rgt_argv[2]}
    if [[ $line =~ $tee ]]; then
      line=$strict${BASH_REMATCH[1]#"$strict"} last=" ${BASH_REMATCH[2]}"
    fi
    (($#)) || [[ -n $last ]] || return 0
    while [[ $line == *[$' \t\n'] ]]; do line=${line%?}; done
    for word in "$@"; do
      rgt_quote "$word"
      line+=" $rgt_q"
    done
    rgt_argv[2]=$line$last
  else
    rgt_argv+=("$@")
  fi
}
