# A launcher around the program: torchrun, accelerate or deepspeed.

: "${RGT_RDZV_HOST=}" "${RGT_RDZV_PORT:=29500}"
# torchrun and its kin pass on TERM only, and die of the others with their workers left behind.
RGT_SAVE_SIGNAL=TERM

rgt_is_python() {
  [[ $1 == "$RGT_PYTHON" || ${1##*/} == python || ${1##*/} == python[23] ||
    ${1##*/} == python3.[0-9]* ]]
}

# The launcher's command line around the program's, in rgt_argv.
rgt_add_launcher() {
  local -a rest=("${rgt_argv[@]}") how=() head=()
  local port=$RGT_RDZV_PORT module=-m bare=--no-python kind=script
  if rgt_is_python "${rest[0]}"; then
    how=("${rest[@]:1}")
    while [[ ${how[0]:-} == -u ]]; do how=("${how[@]:1}"); done
    if [[ ${how[0]:-} == -m ]]; then
      kind=module rest=("${how[@]:1}")
    elif [[ ${how[0]:-} != -* && ${#how[@]} -gt 0 ]]; then
      rest=("${how[@]}")
    else
      # Options of the interpreter: the launcher starts the whole line.
      kind=program
    fi
  elif [[ ${rest[0]} != *.py ]]; then
    kind=program
  fi
  rgt_launcher_head
  case $kind in
    module) head+=("$module") ;;
    program)
      head+=("$bare")
      [[ $RGT_LAUNCHER != deepspeed ]] || head+=(--no_local_rank)
      ;;
  esac
  rgt_argv=("${head[@]}" "${rest[@]}")
}

# The ranks below a launcher, in rgt_pids: a launcher of one process and DeepSpeed's pass no signal
# on, torchrun and DeepSpeed kill 30 s after theirs.
rgt_find_ranks() {
  local mark=LOCAL_RANK file pid up
  local -A below=()
  ((RGT_PROCS * RGT_NODES > 1)) || [[ $RGT_LAUNCHER != accelerate ]] ||
    mark=ACCELERATE_MIXED_PRECISION
  rgt_pids=()
  while IFS= read -r file; do
    pid=${file#/proc/} pid=${pid%/environ}
    up=${rgt_parent[$pid]:-}
    while [[ -n $up && $up != "$1" ]]; do up=${rgt_parent[$up]:-}; done
    [[ -n $up ]] && below[$pid]=1
  done < <(grep -lzE -e "^$mark=" /proc/[0-9]*/environ 2>/dev/null)
  for pid in "${!below[@]}"; do
    [[ -n ${below[${rgt_parent[$pid]}]:-} ]] || rgt_pids+=("$pid")
  done
}
