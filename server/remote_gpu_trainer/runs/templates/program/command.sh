# The program: its arguments and its environment.

# RGT_COMMAND with further arguments, in rgt_argv. A shell line gets them at its end, before a last `| tee log`, which must
# hide neither the arguments from the program nor its exit status from us.
rgt_with_arguments() {
  local word line last='' tee='^(.*[^|])([|]&?[[:space:]]*tee([[:space:]][^|;&]*)?)$' strict=$'set -o pipefail\n'
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

rgt_child_environment() {
  local pair
  umask "$RGT_UMASK"
  unset rgt_here
  export RGT_RUN_DIR RGT_CHECKPOINT_DIR RGT_ATTEMPT=$rgt_attempt RGT_RESUME_FROM=$rgt_checkpoint
  export RGT_SAVE_FILE=$RGT_RUN_DIR/save-now RGT_NODE_RANK=$rgt_rank
  export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1 TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  # A rank that leaves first must not cost the others their save.
  export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=$((RGT_SAVE_SECONDS > 30 ? RGT_SAVE_SECONDS : 30))
  ((RGT_GPUS > 0)) || export ACCELERATE_USE_CPU=true DS_ACCELERATOR=cpu
  for pair in ${RGT_ENV[@]+"${RGT_ENV[@]}"}; do export "${pair?}"; done
  rgt_load_secrets
  rgt_resume_variable
}
